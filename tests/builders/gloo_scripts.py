"""Ranks of gloo in a test's script, whose processes end by the script's own hand.

torch's backward stores the context's variables with every all-reduce. A thread of gloo that lets
go of them while Python ends aborts the process: seen with torch 2.13, without llmprof, in a
quarter of all runs on a busy machine.
"""

IMPORTS = """
import torch.distributed as dist
torch._C._stash_obj_in_tls = lambda *given: None  # compiled backwards alone read it
"""
