"""Short names of kernels that still tell them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 72

_NAMESPACES = re.compile(
    r"\(anonymous namespace\)::|\b(?:at|native|cuda|c10|std|cub|thrust|detail|internal|cutlass|"
    r"__nv_static_\w+|binary_internal|pytorch_flash|at_cuda_detail|CUB_\w+|ns|__\d+|aten)::"
)
_FUNCTOR = re.compile(
    r"\b(?!BinaryFunctor|UnaryFunctor|AUnaryFunctor|BUnaryFunctor|CompareEqFunctor\b)"
    r"(?:CUDAFunctor(?:OnSelf|OnOther)?_)?(\w*?)(?:Functor|_functor|Op|Ops|NormOp)\b"
)
_LAUNCHED_BY = re.compile(r"(\w+?)_kernel(?:_cuda|_impl|_float\w*)?\(at::TensorIterator")
_OUTER = (
    "vectorized_elementwise_kernel",
    "unrolled_elementwise_kernel",
    "elementwise_kernel_with_index",
    "elementwise_kernel",
    "reduce_kernel",
    "multi_tensor_apply_kernel",
    "index_elementwise_kernel",
)
_DTYPES = {
    "float": "f32",
    "double": "f64",
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "__nv_bfloat16": "bf16",
    "__half": "f16",
}
_DTYPE = re.compile("|".join(map(re.escape, _DTYPES)))
_WHOLE = re.compile(r"[\w.:~ -]+")


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """A readable name for each kernel; different kernels get different names.

    Names that would be equal are told apart by their whole template arguments if that is short
    enough, else by a number.
    """
    first = [short_name(name) for name in names]
    taken: dict[str, str] = {}
    result = []
    for name, brief in zip(names, first, strict=True):
        alike = len({n for n, b in zip(names, first, strict=True) if b == brief}) > 1
        chosen = f"{brief} {_template(name)}".rstrip() if alike else brief
        result.append(_distinct(_cut(chosen), name, taken))
    return tuple(result)


def short_name(name: str) -> str:
    """One kernel's name without return type, namespaces and arguments."""
    body = name.removeprefix("void ")
    if _WHOLE.fullmatch(body) and "::" not in body.removeprefix("aten::"):
        return _cut(body)
    head, template = split_template(body)
    base = _NAMESPACES.sub("", head).split("::")[-1].strip() or head
    if base in ("Kernel", "Kernel2"):  # CUTLASS wraps the kernel that tells what it is
        return _cut(_NAMESPACES.sub("", template).split("<")[0].split("::")[-1] or base)
    if base in _OUTER:
        return _cut(f"{base.removesuffix('_kernel')} {_inner(template)}".strip())
    dtype = _dtype(template)
    return _cut(f"{base} {dtype}".strip())


def split_template(name: str) -> tuple[str, str]:
    """A C++ name's head and what stands in its first angle brackets; arguments are dropped."""
    protected = name.replace("(anonymous namespace)::", "")
    opening, call = protected.find("<"), protected.find("(")
    if opening < 0 or (0 <= call < opening):
        return (protected[:call] if call >= 0 else protected), ""
    depth = 0
    for position in range(opening, len(protected)):
        depth += {"<": 1, ">": -1}.get(protected[position], 0)
        if depth == 0:
            return protected[:opening], protected[opening + 1 : position]
    return protected[:opening], protected[opening + 1 :]


def _inner(template: str) -> str:
    """What an elementwise, reduce or foreach kernel applies, and to which dtype."""
    launcher = _LAUNCHED_BY.search(template)
    functors = [match[1] for match in _FUNCTOR.finditer(template) if match[1]]
    what = functors[-1] if functors else ""
    if launcher and not functors:
        what = launcher[1]
    return f"{what} {_dtype(template)}".strip()


def _dtype(template: str) -> str:
    kinds = dict.fromkeys(_DTYPES[match] for match in _DTYPE.findall(template))
    return "→".join(reversed(list(kinds))) if len(kinds) == 2 else " ".join(kinds)


def _template(name: str) -> str:
    _, template = split_template(name.removeprefix("void "))
    numbers = re.findall(r"(?<![\w.])(?:\d+|true|false)(?:u?l?)\b", template)
    return f"<{','.join(numbers[:8])}>" if numbers else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _distinct(brief: str, name: str, taken: dict[str, str]) -> str:
    candidate, number = brief, 1
    while taken.setdefault(candidate, name) != name:
        number += 1
        candidate = f"{brief[: LONGEST - 5]} #{number}"
    return candidate
