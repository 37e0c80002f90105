"""ONNX graphs of the model, built from the same `model.safetensors` that our encoder reads.

Two graphs with the same meaning: `plain` has standard operators only, as an exporter would write
them; `fused` has ONNX Runtime's own (com.microsoft). Each also as dynamic int8, per channel. Every
graph ends in mean pooling and unit length: ids and mask in, one vector per text out.
"""
import hashlib
import json
import logging
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file

GRAPHS = ("plain", "fused")
OPSET = 17
FAR_BELOW = np.float32(-1e9)  # added to scores of padding


class Builder:
    """A graph in the making: values are names, an operator's name is its first output's."""

    def __init__(self, model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        self.heads: int = config["num_attention_heads"]
        self.hidden: int = config["hidden_size"]
        self.layers: int = config["num_hidden_layers"]
        self.epsilon: float = config["layer_norm_eps"]
        self.weights = load_file(model / "model.safetensors")
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def turned(self, name: str) -> str:
        """A published matrix has a row per output; MatMul wants a column."""
        return self.constant(name + " turned", self.weights[name].T)

    def add(self, operator: str, *inputs: str, outputs: int = 1, out: str = "", **settings):
        first = out or f"{operator} {len(self.nodes)}"
        names = [first] + [f"{first} output {i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, name=first, **settings))
        return first if outputs == 1 else names

    def ours(self, operator: str, *inputs: str, **settings):
        """An operator of ONNX Runtime's own."""
        return self.add(operator, *inputs, domain="com.microsoft", **settings)

    def pool(self, state: str) -> None:
        mask = self.add("Cast", "attention_mask", to=TensorProto.FLOAT)
        column = self.add("Unsqueeze", mask, self.constant("last axis", np.array([2])))
        tokens = self.constant("token axis", np.array([1]))
        total = self.add("ReduceSum", self.add("Mul", state, column), tokens, keepdims=0)
        mean = self.add("Div", total, self.add("ReduceSum", column, tokens, keepdims=0))
        length = self.add("ReduceL2", mean, axes=[1], keepdims=1)
        self.add("Div", mean, length, out="vector")

    def save(self, path: Path) -> None:
        ins = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
               for name in ("input_ids", "attention_mask")]
        outs = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["texts", self.hidden])]
        graph = helper.make_graph(self.nodes, "encoder", ins, outs, list(self.constants.values()))
        domains = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains, ir_version=8)
        onnx.save(model, path)


def plain(b: Builder) -> None:
    def linear(x: str, name: str) -> str:
        return b.add("Add", b.add("MatMul", x, b.turned(name + ".weight")), b.weight(name + ".bias"))

    def normed(x: str, name: str) -> str:
        gain, bias = b.weight(name + ".weight"), b.weight(name + ".bias")
        return b.add("LayerNormalization", x, gain, bias, axis=-1, epsilon=b.epsilon)

    one = b.constant("one", np.float32(1.0))
    width = b.hidden // b.heads
    split = b.constant("split", np.array([0, 0, b.heads, width]))
    join = b.constant("join", np.array([0, 0, b.hidden]))
    mask = b.add("Unsqueeze", "attention_mask", b.constant("middle axes", np.array([1, 2])))
    padding = b.add("Sub", one, b.add("Cast", mask, to=TensorProto.FLOAT))
    padding = b.add("Mul", padding, b.constant("far below", FAR_BELOW))
    e = "embeddings."
    words = b.add("Gather", b.weight(e + "word_embeddings.weight"), "input_ids")
    zero = b.constant("zero", np.array([0]))
    count = b.add("Gather", b.add("Shape", "input_ids"), b.constant("first", np.array([1])))
    places = b.add("Slice", b.weight(e + "position_embeddings.weight"), zero, count, zero)
    kind = b.constant("kind", b.weights[e + "token_type_embeddings.weight"][0])
    x = normed(b.add("Add", b.add("Add", words, places), kind), e + "LayerNorm")
    for layer in range(b.layers):
        n = f"encoder.layer.{layer}."
        query, key, value = (
            b.add("Reshape", linear(x, f"{n}attention.self.{part}"), split)
            for part in ("query", "key", "value")
        )
        query = b.add("Transpose", query, perm=[0, 2, 1, 3])
        key = b.add("Transpose", key, perm=[0, 2, 3, 1])
        value = b.add("Transpose", value, perm=[0, 2, 1, 3])
        scale = b.constant("scale", np.float32(width**0.5))
        scores = b.add("Div", b.add("MatMul", query, key), scale)
        shares = b.add("Softmax", b.add("Add", scores, padding), axis=-1)
        mixed = b.add("Transpose", b.add("MatMul", shares, value), perm=[0, 2, 1, 3])
        mixed = linear(b.add("Reshape", mixed, join), n + "attention.output.dense")
        x = normed(b.add("Add", mixed, x), n + "attention.output.LayerNorm")
        wide = linear(x, n + "intermediate.dense")
        root = b.constant("root of two", np.float32(2**0.5))
        shifted = b.add("Add", b.add("Erf", b.add("Div", wide, root)), one)
        half = b.constant("half", np.float32(0.5))
        wide = b.add("Mul", b.add("Mul", wide, shifted), half)
        x = normed(b.add("Add", linear(wide, n + "output.dense"), x), n + "output.LayerNorm")
    b.pool(x)


def fused(b: Builder) -> None:
    e = "embeddings."
    names = ["word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm"]
    tables = [b.weight(f"{e}{name}.weight") for name in names] + [b.weight(e + "LayerNorm.bias")]
    ids, mask = (b.add("Cast", name, to=TensorProto.INT32) for name in ("input_ids", "attention_mask"))
    kinds = b.add("Sub", ids, ids)
    x, lengths = b.ours("EmbedLayerNormalization", ids, kinds, *tables, mask,
                        outputs=2, epsilon=b.epsilon)

    def skip(x: str, before: str, norm: str, dense: str) -> str:
        rest = [b.weight(n) for n in (f"{norm}.weight", f"{norm}.bias", f"{dense}.bias")]
        product = b.add("MatMul", x, b.turned(dense + ".weight"))
        return b.ours("SkipLayerNormalization", product, before, *rest, epsilon=b.epsilon)

    for layer in range(b.layers):
        n = f"encoder.layer.{layer}."
        parts = [f"{n}attention.self.{part}" for part in ("query", "key", "value")]
        matrix = np.concatenate([b.weights[p + ".weight"].T for p in parts], axis=1)
        bias = np.concatenate([b.weights[p + ".bias"] for p in parts])
        mixed = b.ours("Attention", x, b.constant(n + "qkv", matrix),
                       b.constant(n + "qkv bias", bias), lengths, num_heads=b.heads)
        dense = n + "attention.output.dense"
        x = skip(mixed, x, n + "attention.output.LayerNorm", dense)
        wide = b.add("MatMul", x, b.turned(n + "intermediate.dense.weight"))
        wide = b.ours("BiasGelu", wide, b.weight(n + "intermediate.dense.bias"))
        x = skip(wide, x, n + "output.LayerNorm", n + "output.dense")
    b.pool(x)


def quantised(source: Path, target: Path) -> None:
    """Weights as signed bytes per output channel, activations as bytes per tensor."""
    logging.getLogger().setLevel(logging.ERROR)  # it recommends a step that changes no MatMul
    quantize_dynamic(
        source, target, per_channel=True, reduce_range=False, weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Attention"],
        extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
    )


def path_of(folder: Path, graph: str, precision: str) -> Path:
    return folder / "graphs" / f"{graph}-{precision}.onnx"


def build(model: Path, folder: Path) -> None:
    """Builds what is not there yet for these weights, this file's text and the peer's version."""
    hashed = hashlib.sha256((model / "model.safetensors").read_bytes())
    hashed.update(Path(__file__).read_bytes())
    hashed.update(f"{onnx.__version__} {onnxruntime.__version__}".encode())
    stamp = folder / "graphs" / "built-from"
    if stamp.exists() and stamp.read_text() == hashed.hexdigest():
        return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    for graph, write in zip(GRAPHS, (plain, fused)):
        builder = Builder(model)
        write(builder)
        builder.save(path_of(folder, graph, "f32"))
        quantised(path_of(folder, graph, "f32"), path_of(folder, graph, "int8"))
    stamp.write_text(hashed.hexdigest())
