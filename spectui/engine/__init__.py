"""The engine: one thread owns the models, takes commands and emits events.

Commands and events are frozen and picklable, so that the same engine can stand behind a process
boundary.
"""
