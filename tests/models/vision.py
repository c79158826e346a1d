"""Image classifiers. Input `x`: f32 [batch, 3, size, size]; output `logits`: f32 [batch, classes]."""

import numpy as np

from .builder import GraphBuilder


def _start(name, batch, size):
    graph = GraphBuilder(name)
    return graph, graph.input("x", [batch, 3, size, size])


def _classify(graph, x, channels, classes, batch):
    """Global average pooling and one fully connected layer."""
    x = graph.op("Flatten", graph.op("GlobalAveragePool", x), axis=1)
    graph.output(graph.linear(x, channels, classes), "logits", [batch, classes])
    return graph.model()


def _conv_bn(graph, x, cin, cout, kernel, stride=1, pad=0, group=1, gain=1.0):
    x = graph.conv(x, cin, cout, kernel, stride, pad, group, bias=False)
    return graph.batch_norm(x, cout, gain)


def _residual(graph, x, cin, cout, stride, branch):
    """Adds the shortcut: the identity, or a strided 1x1 convolution where the shape changes."""
    shortcut = x if stride == 1 and cin == cout else _conv_bn(graph, x, cin, cout, 1, stride, gain=0.7)
    return graph.op("Relu", graph.op("Add", branch, shortcut))


def _basic_block(graph, x, cin, width, stride):
    """ResNet-18/34: two 3x3 convolutions."""
    branch = graph.op("Relu", _conv_bn(graph, x, cin, width, 3, stride, 1))
    # A small last scale keeps the sum of many residual branches O(1).
    branch = _conv_bn(graph, branch, width, width, 3, 1, 1, gain=0.3)
    return _residual(graph, x, cin, width, stride, branch), width


def _bottleneck(graph, x, cin, width, stride):
    """ResNet-50/101: 1x1, 3x3, 1x1; version 1.5, the stride is in the 3x3."""
    branch = graph.op("Relu", _conv_bn(graph, x, cin, width, 1))
    branch = graph.op("Relu", _conv_bn(graph, branch, width, width, 3, stride, 1))
    branch = _conv_bn(graph, branch, width, 4 * width, 1, gain=0.3)
    return _residual(graph, x, cin, 4 * width, stride, branch), 4 * width


def _resnet(name, block, depths, batch, size, classes):
    """He et al., "Deep Residual Learning for Image Recognition"."""
    graph, x = _start(name, batch, size)
    x = graph.op("Relu", _conv_bn(graph, x, 3, 64, 7, 2, 3))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, depth in enumerate(depths):
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            x, channels = block(graph, x, channels, 64 << stage, stride)
    return _classify(graph, x, channels, classes, batch)


def resnet18(batch, size=224, classes=1000):
    return _resnet("resnet18", _basic_block, (2, 2, 2, 2), batch, size, classes)


def resnet50(batch, size=224, classes=1000):
    return _resnet("resnet50", _bottleneck, (3, 4, 6, 3), batch, size, classes)


def mobilenet_v1(batch, size=224, classes=1000):
    """Howard et al., "MobileNets": depthwise 3x3 and pointwise 1x1 convolutions, Relu6 as Clip."""
    graph, x = _start("mobilenet_v1", batch, size)
    low, high = graph.constant(np.float32(0), "relu6_min"), graph.constant(np.float32(6), "relu6_max")

    def layer(x, cin, cout, kernel, stride=1, group=1):
        x = _conv_bn(graph, x, cin, cout, kernel, stride, kernel // 2, group)
        return graph.op("Clip", x, low, high)

    x = layer(x, 3, 32, 3, 2)
    channels = 32
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1),
                          (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)):
        x = layer(x, channels, channels, 3, stride, group=channels)
        x = layer(x, channels, width, 1)
        channels = width
    return _classify(graph, x, channels, classes, batch)


def squeezenet1_1(batch, size=224, classes=1000):
    """Iandola et al., "SqueezeNet", version 1.1: fire modules joined by Concat, no fully connected layer."""
    graph, x = _start("squeezenet1_1", batch, size)

    def conv_relu(x, cin, cout, kernel, stride=1, pad=0):
        return graph.op("Relu", graph.conv(x, cin, cout, kernel, stride, pad))

    def pool(x):
        return graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)

    def fire(x, cin, squeeze, expand):
        x = conv_relu(x, cin, squeeze, 1)
        wide = conv_relu(x, squeeze, expand, 3, pad=1)
        return graph.op("Concat", conv_relu(x, squeeze, expand, 1), wide, axis=1)

    x = pool(conv_relu(x, 3, 64, 3, 2))
    x = fire(fire(x, 64, 16, 64), 128, 16, 64)
    x = pool(x)
    x = fire(fire(x, 128, 32, 128), 256, 32, 128)
    x = pool(x)
    x = fire(fire(x, 256, 48, 192), 384, 48, 192)
    x = fire(fire(x, 384, 64, 256), 512, 64, 256)
    x = graph.op("GlobalAveragePool", conv_relu(x, 512, classes, 1))
    graph.output(graph.op("Flatten", x, axis=1), "logits", [batch, classes])
    return graph.model()
