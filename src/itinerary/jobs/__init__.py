"""Jobs as programs and job files declare them, and their registration in a store.

declaration       a job as it is written, checked option by option
function_names    the name under which a task's function is stored
named_functions   functions that a job file names, imported at the first call
registration      declared jobs, compared with the stored ones
undeclared        stored jobs that their source no longer declares
version_diff      the differences between two versions of a job, in words
job_file          jobs in a TOML file
"""
