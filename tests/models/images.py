"""Networks of few channels, which fit one channel block: a classifier of small images, and image-to-image networks.
Input `x`: f32 [batch, channels, size, size]."""

import numpy as np

from .builder import GraphBuilder
from .vision import _basic_block, _classify, _conv_bn, _start


def resnet20(batch, size=32, classes=10, width=16):
    """He et al., "Deep Residual Learning for Image Recognition", section 4.2: the network for CIFAR-10."""
    graph, x = _start("resnet20", batch, size)
    x = graph.op("Relu", _conv_bn(graph, x, 3, width, 3, 1, 1))
    channels = width
    for stage in range(3):
        for index in range(3):
            x, channels = _basic_block(graph, x, channels, width << stage, 2 if stage > 0 and index == 0 else 1)
    return _classify(graph, x, channels, classes, batch)


def unet(batch, size=256, width=20, classes=3):
    """Ronneberger et al., "U-Net", as exported today: padded convolutions, pooling, nearest-neighbour upsampling, and
    concatenation with each level. Output `mask`: f32 [batch, classes, size, size]."""
    graph, x = _start("unet", batch, size)
    twice = graph.constant(np.array([1, 1, 2, 2], np.float32), "scales")

    def double(x, cin, cout):
        for channels in (cin, cout):
            x = graph.op("Relu", _conv_bn(graph, x, channels, cout, 3, 1, 1))
        return x

    levels = []
    channels = 3
    for level in range(3):
        x = double(x, channels, width << level)
        channels = width << level
        levels.append((x, channels))
        x = graph.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = double(x, channels, width << 3)
    channels = width << 3
    for skipped, fewer in reversed(levels):
        x = graph.op("Resize", x, "", twice, mode="nearest", coordinate_transformation_mode="asymmetric",
                     nearest_mode="floor")
        x = double(graph.op("Concat", skipped, x, axis=1), channels + fewer, fewer)
        channels = fewer
    graph.output(graph.conv(x, channels, classes, 1), "mask", [batch, classes, size, size])
    return graph.model()


def espcn(batch, size=256, scale=3, width=32):
    """Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
    Network". Output `larger`: f32 [batch, 1, scale * size, scale * size]."""
    graph = GraphBuilder("espcn")
    x = graph.input("x", [batch, 1, size, size])
    x = graph.op("Tanh", graph.conv(x, 1, 2 * width, 5, pad=2, gain=1.0))
    x = graph.op("Tanh", graph.conv(x, 2 * width, width, 3, pad=1, gain=1.0))
    x = graph.conv(x, width, scale * scale, 3, pad=1, gain=1.0)
    graph.output(graph.op("DepthToSpace", x, blocksize=scale, mode="CRD"), "larger",
                 [batch, 1, scale * size, scale * size])
    return graph.model()
