"""Tasks that are pods: the definition, the pod, and how the node follows it to its end (SPEC K).

    definition ─► manifest ─► executor ─► api_client ─► the API server
                                 ▲                          │
                  status ◄─── watch ◄───────────────────────┘

    definition    the allowed content of a pod task, checked              needs no Kubernetes
    policy        the pods that a node allows                             needs no Kubernetes
    manifest      the pod in the format of the API server                 pure
    status        the observed state of a pod, and its meaning            pure
    messages      the message to a function in a pod, and its answer      pure
    api_client    credentials and API calls                               the only module that knows the library
    watch         one watch for all pods of a node in a namespace
    logs          the output of pods
    attempts      the state of each attempt
    executor      from an attempt to its pod, and from the pod to an outcome
    cleanup       the pods that were left behind
    entrypoint    the program in the pod of a Python function

`kubernetes-asyncio` is an extra. Only `api_client` imports it, when it first connects.
"""
