"""Everything that exists only for speed; no other room uses private torch APIs.

`CLEARHEAD_ACCEL=off` in the environment turns it off: all functions here then fall back to plain torch.

| private torch API                                  | used in                   | for                       |
|----------------------------------------------------|---------------------------|---------------------------|
| torch._foreach_{mul,mul_,add_,div_,copy_}          | torch_private.py          | many tensors at once      |
| torch._disable_dynamo                              | torch_private.py          | code left uncompiled      |
| Module._{forward,backward}{,_pre}_hooks            | torch_private.py          | hooks on a module         |
| Module._{modules,parameters}                       | torch_private.py, packing | fast access to modules    |
| torch._make_per_channel_quantized_tensor           | torch_private.py          | rows of an int8 matrix    |
| Tensor._version                                    | torch_private.py          | weights that changed      |
| UntypedStorage._cdata, StorageWeakRef              | torch_private.py          | memory still in use       |
| torch._addmm_activation                            | kernels/feedforward.py    | bias and ReLU in one step |
| torch._C.parse_ir, ._create_function_from_graph    | onednn.py                 | a call that traces record |
| torch.ops.mkldnn._{linear_pointwise,reorder_…}     | onednn.py                 | products by oneDNN        |
| torch.cpu._is_vnni_supported                       | int8.py                   | which processors are fast |
| torch._inductor.config, .custom_graph_pass         | compile.py                | graph rewrites            |

Tested with torch 2.11 on CUDA and torch 2.13 on the CPU.
"""

import os

_ENABLED = os.environ.get("CLEARHEAD_ACCEL", "on").lower() != "off"


def enabled() -> bool:
    """Whether speed-ups are on; the environment is read once, at import."""
    return _ENABLED
