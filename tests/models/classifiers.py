"""Classifiers of the years 2012 to 2017. Input `x`: f32 [batch, 3, size, size]; output `logits`: f32 [batch, classes].

`slim` divides the numbers of channels: topology and operators stay, tests become fast.
"""

import numpy as np

from .builder import GraphBuilder

# Local response normalisation with the authors' alpha of 1e-4 has no effect on activations of O(1). The layers before
# it scale them to this magnitude, like images of 0 to 255, and a layer after it scales them back.
BRIGHT = 100.0


class _Network:
    """A graph, its last value, and that value's shape: [channels, extent, extent]."""

    def __init__(self, name, batch, size, slim):
        self.graph = GraphBuilder(name)
        self.batch = batch
        self.slim = slim
        self.x = self.graph.input("x", [batch, 3, size, size])
        self.channels = 3
        self.extent = size

    def width(self, channels):
        return max(1, channels // self.slim)

    def conv(self, cout, kernel, stride=1, pad=None, group=1, gain=2.0):
        """Convolution and Relu; `cout` is the published number of channels. The default padding keeps the extent."""
        pad = kernel // 2 if pad is None else pad
        cout = self.width(cout)
        self.x = self.graph.op("Relu", self.graph.conv(self.x, self.channels, cout, kernel, stride, pad, group, gain=gain))
        self.channels = cout
        self.extent = (self.extent + 2 * pad - kernel) // stride + 1
        return self

    def pool(self, kernel, stride, pad=0, ceil=0):
        self.x = self.graph.op("MaxPool", self.x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                               ceil_mode=ceil)
        self.extent = -(-(self.extent + 2 * pad - kernel) // stride) + 1 if ceil else (
            self.extent + 2 * pad - kernel) // stride + 1
        return self

    def normalize(self, bias=1.0):
        self.x = self.graph.op("LRN", self.x, size=5, alpha=1e-4, beta=0.75, bias=bias)
        return self

    def flatten(self):
        self.x = self.graph.op("Flatten", self.x, axis=1)
        self.channels *= self.extent * self.extent
        return self

    def dense(self, cout):
        """Fully connected, Relu, Dropout (identity at inference)."""
        graph, cout = self.graph, self.width(cout)
        self.x = graph.op("Relu", graph.linear(self.x, self.channels, cout, gain=2.0))
        self.channels = cout
        return self.dropout()

    def dropout(self):
        self.x = self.graph.op("Dropout", self.x, self.graph.constant(np.float32(0.5), "ratio"))
        return self

    def classify(self, classes, gain=1.0):
        self.graph.output(self.graph.linear(self.x, self.channels, classes, gain), "logits", [self.batch, classes])
        return self.graph.model()


def alexnet(batch, size=224, classes=1000, slim=1):
    """Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", both halves as groups."""
    net = _Network("alexnet", batch, size, slim)
    net.conv(96, 11, 4, 2, gain=2.0 * BRIGHT**2).normalize(bias=2.0).pool(3, 2)
    net.conv(256, 5, group=2).normalize(bias=2.0).pool(3, 2)
    net.conv(384, 3, gain=2.0 / BRIGHT**2).conv(384, 3, group=2).conv(256, 3, group=2).pool(3, 2)
    return net.flatten().dense(4096).dense(4096).classify(classes)


def vgg19(batch, size=224, classes=1000, slim=1):
    """Simonyan and Zisserman, "Very Deep Convolutional Networks", configuration E."""
    net = _Network("vgg19", batch, size, slim)
    for width, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            net.conv(width, 3)
        net.pool(2, 2)
    return net.flatten().dense(4096).dense(4096).classify(classes)


def _inception(net, one, three_reduce, three, five_reduce, five, pooled):
    """Four branches of 1x1, 3x3, 5x5 and pooled 1x1 convolutions, joined by Concat."""
    start, channels = net.x, net.channels
    ends, width = [], 0  # all layers keep the extent
    for layers in ([(one, 1)], [(three_reduce, 1), (three, 3)], [(five_reduce, 1), (five, 5)], [None, (pooled, 1)]):
        net.x, net.channels = start, channels
        for layer in layers:
            if layer is None:
                net.pool(3, 1, 1)
            else:
                net.conv(*layer)
        ends.append(net.x)
        width += net.channels
    net.x, net.channels = net.graph.op("Concat", *ends, axis=1), width


# Channels of each module: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pooled (table 1 of the article).
INCEPTIONS = (((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
              ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
               (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)),
              ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)))


def inception_v1(batch, size=224, classes=1000, slim=1):
    """Szegedy et al., "Going Deeper with Convolutions": GoogLeNet without its training classifiers."""
    net = _Network("inception_v1", batch, size, slim)
    net.conv(64, 7, 2, gain=2.0 * BRIGHT**2).pool(3, 2, ceil=1).normalize()
    net.conv(64, 1).conv(192, 3).normalize().pool(3, 2, ceil=1)
    for stage, blocks in enumerate(INCEPTIONS):
        if stage > 0:
            net.pool(3, 2, ceil=1)
        for block in blocks:
            _inception(net, *block)
    net.x = net.graph.op("AveragePool", net.x, kernel_shape=[net.extent] * 2)
    net.extent = 1
    return net.flatten().dropout().classify(classes, gain=1 / BRIGHT**2)


def densenet121(batch, size=224, classes=1000, slim=1):
    """Huang et al., "Densely Connected Convolutional Networks": each layer reads all earlier layers of its block."""
    net = _Network("densenet121", batch, size, slim)
    graph, growth = net.graph, net.width(32)

    def preactivated(x, cin, cout, kernel):
        x = graph.op("Relu", graph.batch_norm(x, cin))
        return graph.conv(x, cin, cout, kernel, pad=kernel // 2, bias=False)

    cout = net.width(64)
    x = graph.conv(net.x, 3, cout, 7, 2, 3, bias=False)
    x = graph.op("Relu", graph.batch_norm(x, cout))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = cout
    for stage, depth in enumerate((6, 12, 24, 16)):
        if stage > 0:
            x = preactivated(x, channels, channels // 2, 1)
            x = graph.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
        for _ in range(depth):
            grown = preactivated(preactivated(x, channels, 4 * growth, 1), 4 * growth, growth, 3)
            x = graph.op("Concat", x, grown, axis=1)
            channels += growth
    x = graph.op("Relu", graph.batch_norm(x, channels))
    net.x, net.channels, net.extent = graph.op("GlobalAveragePool", x), channels, 1
    return net.flatten().classify(classes)


def shufflenet_v1(batch, size=224, classes=1000, slim=1, groups=3):
    """Zhang et al., "ShuffleNet": grouped 1x1 convolutions whose channels are shuffled. `groups`: 1, 2, 3, 4 or 8."""
    net = _Network("shufflenet_v1", batch, size, slim)
    graph = net.graph
    first = {1: 144, 2: 200, 3: 240, 4: 272, 8: 384}[groups]

    def conv_bn(x, cin, cout, kernel=1, stride=1, group=1, gain=1.0):
        return graph.batch_norm(graph.conv(x, cin, cout, kernel, stride, kernel // 2, group, bias=False), cout, gain)

    def shuffle(x, channels, extent):
        x = graph.op("Reshape", x, graph.constant([0, groups, channels // groups, extent, extent], "shape", np.int64))
        x = graph.op("Transpose", x, perm=[0, 2, 1, 3, 4])
        return graph.op("Reshape", x, graph.constant([0, channels, extent, extent], "shape", np.int64))

    def unit(x, cin, cout, extent, stride, first_group):
        # A strided unit concatenates its pooled input with its result.
        computed = cout - cin if stride == 2 else cout
        middle = cout // 4 // groups * groups
        branch = graph.op("Relu", conv_bn(x, cin, middle, group=first_group))
        branch = shuffle(branch, middle, extent)
        branch = conv_bn(branch, middle, middle, 3, stride, group=middle)
        branch = conv_bn(branch, middle, computed, group=groups, gain=1.0 if stride == 2 else 0.5)
        if stride == 1:
            return graph.op("Relu", graph.op("Add", x, branch))
        kept = graph.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        return graph.op("Concat", kept, graph.op("Relu", branch), axis=1)

    # All channel counts stay multiples of the groups.
    def width(channels):
        return max(1, channels // slim // (4 * groups)) * 4 * groups

    channels = max(groups, 24 // slim // groups * groups)
    x = graph.op("Relu", conv_bn(net.x, 3, channels, 3, 2))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    extent = ((size + 1) // 2 + 1) // 2
    for stage, depth in enumerate((4, 8, 4)):
        cout = width(first << stage)
        for index in range(depth):
            stride = 2 if index == 0 else 1
            x = unit(x, channels, cout, extent, stride, 1 if stage == 0 and index == 0 else groups)
            extent = (extent + 1) // 2 if index == 0 else extent
            channels = cout
    net.x, net.channels, net.extent = graph.op("GlobalAveragePool", x), channels, 1
    return net.flatten().classify(classes)
