"""The roofline picture as SVG: arithmetic intensity and speed of each kernel under the machine's two roofs."""

import html
import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 920, 560, 70, 60, 30, 200
COLOURS = ["#1b6ca8", "#c0392b", "#27853d", "#8e44ad", "#b9770e", "#117a65", "#5d6d7e", "#a04000"]


def svg(points, peak_gflops, bandwidth_gbs):
    """`points`: (name, family, flops per byte, GFLOP/s). Both axes are logarithmic."""
    low_x, high_x = 0.125, max(512.0, 2 * max((x for _, _, x, _ in points), default=1.0))
    high_y = 2 * peak_gflops
    low_y = min([peak_gflops / 256] + [0.7 * y for _, _, _, y in points])

    def at(x, y):
        across = (math.log(x) - math.log(low_x)) / (math.log(high_x) - math.log(low_x))
        up = (math.log(y) - math.log(low_y)) / (math.log(high_y) - math.log(low_y))
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             'font-size="12">', '<rect width="100%" height="100%" fill="white"/>']

    def line(a, b, style):
        parts.append(f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" {style}/>')

    def text(x, y, words, extra=""):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{html.escape(words)}</text>')

    power = math.ceil(math.log2(low_x))
    while 2**power <= high_x:
        x, y = at(2**power, low_y)
        line((x, y), at(2**power, high_y), 'stroke="#eee"')
        text(x, y + 16, f"{2**power:g}", 'text-anchor="middle"')
        power += 1
    power = math.ceil(math.log2(low_y))
    while 2**power <= high_y:
        x, y = at(low_x, 2**power)
        line((x, y), at(high_x, 2**power), 'stroke="#eee"')
        text(x - 6, y + 4, f"{2**power:g}", 'text-anchor="end"')
        power += 1
    ridge = peak_gflops / bandwidth_gbs
    start = max(low_x, low_y / bandwidth_gbs)
    line(at(start, start * bandwidth_gbs), at(ridge, peak_gflops), 'stroke="#222" stroke-width="2"')
    line(at(ridge, peak_gflops), at(high_x, peak_gflops), 'stroke="#222" stroke-width="2"')
    x, y = at(ridge, peak_gflops)
    text(x + 4, y - 8, f"{peak_gflops:.0f} GFLOP/s, {bandwidth_gbs:.1f} GB/s")
    families = list(dict.fromkeys(family for _, family, _, _ in points))
    for name, family, intensity, speed in points:
        x, y = at(intensity, speed)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[families.index(family) % len(COLOURS)]}">'
                     f"<title>{html.escape(name)}: {speed:.1f} GFLOP/s at {intensity:.1f} flop/byte</title></circle>")
    for i, family in enumerate(families):
        y = TOP + 20 * i
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{y}" r="5" fill="{COLOURS[i % len(COLOURS)]}"/>')
        text(WIDTH - RIGHT + 32, y + 4, family)
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, "flop per byte of compulsory traffic", 'text-anchor="middle"')
    text(16, HEIGHT / 2, "GFLOP/s", f'text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})"')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
