"""Short names of kernels that still tell them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

LONGEST_NAME = 80
_TAIL = 26  # characters kept at the end of a name that is cut: there GEMMs differ

_NAMESPACES = re.compile(
    r"\(anonymous namespace\)::|\b(?:at|native|cuda|c10|std|cub|thrust|detail|internal|cutlass|"
    r"cudnn|fusion|cublasLt|memory|binary_internal|pytorch_flash|CUB_\w+|__nv_static_\w+)::"
)
_LIBRARY = (  # what cuBLAS and cuDNN write out at length in their kernels' names
    (re.compile(r"_execute_(?:(\w+?)_)?kernel_*\w*$"), lambda m: f"_{m[1]}" if m[1] else ""),
    (re.compile(r"_kernel\d+_\d+$"), ""),
    (re.compile(r"generated_fort_native_"), ""),
    (re.compile(r"(tile)size|(s)tage(?=\d)|(w)arpsize|(w)arpgroupsize"), r"\1\2\3\4"),
    (re.compile(r"align([ac]\d)_align([ac]\d)"), r"\1\2"),
    (re.compile(r"_(b?f\d\d)\1_(t?)\1\1_\1_"), r"_\2\1_"),  # f32f32_tf32f32_f32 is tf32
)
_OUTER = re.compile(
    r"(?:vectorized|unrolled|legacy)?_?elementwise_kernel(?:_manual_unroll|_with_index)?"
    r"|reduce_kernel|multi_tensor_apply_kernel|index_elementwise_kernel|bernoulli_kernel"
)
_CUDA_FUNCTOR = re.compile(r"\bCUDAFunctor(?:OnSelf|OnOther)?_(\w+)")
_FUNCTOR = re.compile(r"\b(\w+?)(?:Functor|_functor|NormOps|Ops)\b")
_WRAPPERS = frozenset(
    {"Binary", "Unary", "AUnary", "BUnary", "Reduce", "func_wrapper", "BinaryOpScalar"}
)
_LAUNCHER = re.compile(
    r"(\w+?)(?:_kernel(?:_cuda|_impl|_cuda_impl)?|_cuda_)(?:<[^()]*>)?"
    r"\((?:at::TensorIterator|c10::ArrayRef)"
)
_STD = re.compile(r"\bstd::(multiplies|plus|minus|divides)<")
_ARITHMETIC = {"multiplies": "mul", "plus": "add", "minus": "sub", "divides": "div"}
_PLAIN = re.compile(r"::([A-Z]\w*)<(?:float|double|c10::\w+)>")
_DTYPES = {
    "float": "f32",
    "double": "f64",
    "c10::BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "c10::Half": "f16",
    "__half": "f16",
    "unsigned char": "u8",
    "long": "i64",
    "bool": "bool",
}
_DTYPE = re.compile(rf"(?<!unsigned )\b(?:{'|'.join(map(re.escape, _DTYPES))})\b(?! int)")
_NUMBERS = re.compile(r"(?<![\w.#])(?:\d+|true|false)(?=u?l?\b)")


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """A readable name for each kernel; different kernels get different names.

    Names that would be equal are told apart by the numbers among their template arguments, and
    where these are equal too by a number of our own.
    """
    brief = [short_name(name) for name in names]
    alike = Counter(dict(zip(names, brief, strict=True)).values())
    taken: dict[str, str] = {}
    return tuple(
        _distinct(f"{text} {_template(name)}".rstrip() if alike[text] > 1 else text, name, taken)
        for name, text in zip(names, brief, strict=True)
    )


def short_name(name: str) -> str:
    """One kernel's name without return type, namespaces and arguments.

    Of an elementwise, reducing or foreach kernel first what it applies, then the kernel's form.
    """
    if "::" in name and "(" not in name and "<" not in name:
        return name  # an op's name, not a C++ kernel's
    head, template = split_template(name.removeprefix("void "))
    base = _NAMESPACES.sub("", head).split("::")[-1].strip() or head
    if "::" not in head and not template:
        base = _library_name(head.strip())
    if base in ("Kernel", "Kernel2"):  # CUTLASS wraps the kernel that says what it is
        base, template = _NAMESPACES.sub("", template).split("<")[0].split("::")[-1] or base, ""
    form = base.replace("_kernel", "")
    if _OUTER.fullmatch(base):
        what = _applied(template)
        return " ".join(filter(None, (what, _dtype(template), "·" if what else "", form)))
    return f"{form if template else base} {_dtype(template)}".strip()


def split_template(name: str) -> tuple[str, str]:
    """A C++ name's head and what stands in its first angle brackets; arguments are dropped."""
    plain = name.replace("(anonymous namespace)::", "")
    opening, call = plain.find("<"), plain.find("(")
    if opening < 0 or 0 <= call < opening:
        return (plain[:call] if call > 0 else plain), ""
    depth = 0
    for position in range(opening, len(plain)):
        depth += {"<": 1, ">": -1}.get(plain[position], 0)
        if depth == 0:
            return plain[:opening], plain[opening + 1 : position]
    return plain[:opening], plain[opening + 1 :]


def _applied(template: str) -> str:
    """What a general kernel applies: its functor, or the function whose lambda it got."""
    if launcher := _LAUNCHER.search(template):
        return launcher[1].removesuffix("_cuda")
    if functor := _CUDA_FUNCTOR.search(template):
        return functor[1]
    if operation := _STD.search(template):
        return ("addc" if "PointwiseOp" in template else "") + _ARITHMETIC[operation[1]]
    functors = [each for each in _FUNCTOR.findall(template) if each not in _WRAPPERS]
    functors += [each for each in _PLAIN.findall(template) if not each.endswith("Functor")]
    last = functors[-1] if functors else ""
    return last.lower() if last.istitle() else last


def _library_name(name: str) -> str:
    for pattern, short in _LIBRARY:
        name = pattern.sub(short, name)
    return name


def _dtype(template: str) -> str:
    """The result's and the operand's dtype, as far as the template says."""
    kinds = list(dict.fromkeys(_DTYPES[match] for match in _DTYPE.findall(template)))
    numeric = [kind for kind in kinds if kind not in ("bool", "i64")] or kinds
    return "/".join(numeric[:2])


def _template(name: str) -> str:
    _, template = split_template(name.removeprefix("void "))
    numbers = _NUMBERS.findall(template)
    return f"<{','.join(numbers[:8])}>" if numbers else ""


def _cut(text: str, longest: int = LONGEST_NAME) -> str:
    if len(text) <= longest:
        return text
    return f"{text[: longest - _TAIL - 1]}…{text[-_TAIL:]}"


def _distinct(text: str, name: str, taken: dict[str, str]) -> str:
    candidate, number = _cut(text), 1
    while taken.setdefault(candidate, name) != name:
        number += 1
        candidate = f"{_cut(text, LONGEST_NAME - 5)} #{number}"
    return candidate
