"""Tasks that are pods: what a definition says, the pod that it becomes, and how that is followed to its end (SPEC K).

    definition ─► manifest ─► executor ─► cluster ─► the API server
                                 ▲                       │
                  sight ◄─── watching ◄──────────────────┘

    definition    what a task may say of its pod, checked                 no Kubernetes needed
    manifest      the pod as the API server wants it                      pure
    sight         a pod as it was seen, and what that means               pure
    letters       what is told to a function in a pod, and its answer     pure
    cluster       credentials, and the calls that are made                the only one that knows the library
    watching      one watch for all pods of a node in a namespace
    logs          what pods print
    executor      from an attempt to its pod, and from the pod to an outcome
    inside        what runs in the pod of a Python function

`kubernetes-asyncio` is an extra: nothing here is imported before a node runs its first pod, but for `definition`.
"""
