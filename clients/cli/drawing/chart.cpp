#include "clients/cli/drawing/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::client {
namespace {

constexpr double kWidth = 960, kHeight = 480, kLeft = 76, kTop = 48, kBottom = 52, kRow = 18, kLegendRow = 16;
// Distinguishable with colour blindness (palette of Okabe and Ito).
constexpr std::array kColors = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#667788"};

std::string colorOf(size_t number) { return kColors[number % kColors.size()]; }

std::string head(double width, double height, const std::string& title) {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
      "<text x=\"%.0f\" y=\"24\" font-size=\"16\" font-weight=\"bold\">%s</text>\n",
      width, height, width, height, kLeft, xmlEscaped(title));
}

void text(std::string& svg, double x, double y, const char* anchor, const std::string& words) {
  absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                        xmlEscaped(words));
}

void rule(std::string& svg, double x1, double y1, double x2, double y2) {
  absl::StrAppendFormat(&svg, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#ccd\"/>\n", x1, y1, x2, y2);
}

/// A linear map from an axis interval to pixels.
struct Scale {
  double from, to, first_pixel, last_pixel;
  double at(double value) const { return first_pixel + (value - from) / (to - from) * (last_pixel - first_pixel); }
};

void legend(std::string& svg, const std::vector<std::string>& names, double top) {
  for (size_t at = 0; at < names.size(); ++at) {
    const double y = top + kLegendRow * static_cast<double>(at);
    absl::StrAppendFormat(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"10\" fill=\"%s\"/>\n", kLeft, y - 9,
                          colorOf(at));
    text(svg, kLeft + 18, y, "start", names[at]);
  }
}

}  // namespace

std::string xmlEscaped(const std::string& words) {
  std::string result;
  for (const char c : words) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += byte < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return result;
}

double tickStep(double span, int parts) {
  if (!(span > 0) || !std::isfinite(span)) return 1;
  const double raw = span / parts, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * 0.999) return factor * power;
  return 10 * power;
}

std::string curveSvg(const std::string& title, const std::string& x_axis, const std::string& y_axis,
                     const std::vector<Curve>& curves) {
  double most_x = 0, least_y = HUGE_VAL, most_y = -HUGE_VAL;
  for (const Curve& curve : curves)
    for (const auto& [x, y] : curve.points) {
      most_x = std::max(most_x, x);
      least_y = std::min(least_y, y);
      most_y = std::max(most_y, y);
    }
  if (!(least_y <= most_y)) least_y = most_y = 0;
  const double y_step = tickStep(std::max(most_y - least_y, 1e-3 * std::fabs(most_y)), 6);
  const Scale x{0, std::max(most_x, 1e-9), kLeft, kWidth - 24};
  const Scale y{std::floor(least_y / y_step) * y_step, std::floor(most_y / y_step + 1) * y_step, kHeight - kBottom,
                kTop};
  std::string svg = head(kWidth, kHeight + kLegendRow * static_cast<double>(curves.size()) + 8, title);
  for (double tick = y.from; tick <= y.to + y_step / 2; tick += y_step) {
    rule(svg, kLeft, y.at(tick), kWidth - 24, y.at(tick));
    text(svg, kLeft - 6, y.at(tick) + 4, "end", absl::StrFormat("%.6g", std::fabs(tick) < y_step / 1e6 ? 0 : tick));
  }
  const double x_step = tickStep(x.to, 10);
  for (double tick = 0; tick <= x.to + x_step / 1e6; tick += x_step) {
    rule(svg, x.at(tick), kTop, x.at(tick), kHeight - kBottom);
    text(svg, x.at(tick), kHeight - kBottom + 16, "middle", absl::StrFormat("%.6g", tick));
  }
  text(svg, (kLeft + kWidth) / 2, kHeight - kBottom + 34, "middle", x_axis);
  text(svg, kLeft, kTop - 8, "start", y_axis);
  std::vector<std::string> names;
  for (size_t at = 0; at < curves.size(); ++at) {
    const Curve& curve = curves[at];
    names.push_back(curve.name);
    if (curve.points.empty()) continue;
    std::string path = absl::StrFormat("M%.1f %.1f", x.at(curve.points[0].first), y.at(curve.points[0].second));
    for (size_t point = 1; point < curve.points.size(); ++point)
      absl::StrAppendFormat(&path, "H%.1fV%.1f", x.at(curve.points[point].first), y.at(curve.points[point].second));
    absl::StrAppendFormat(&svg,
                          "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"><title>%s</title></path>\n",
                          path, colorOf(at), xmlEscaped(curve.name));
  }
  legend(svg, names, kHeight + 4);
  return svg + "</svg>\n";
}

std::string categorySvg(const CategoryChart& chart) {
  double most = 0;
  for (const Curve& line : chart.lines)
    for (const auto& [position, value] : line.points) most = std::max(most, value);
  const double y_step = tickStep(most, 6);
  const Scale x{-0.5, std::max(0.5, static_cast<double>(chart.categories.size()) - 0.5), kLeft, kWidth - 24};
  const Scale y{0, std::floor(most / y_step + 1) * y_step, kHeight - kBottom, kTop};
  std::string svg = head(kWidth, kHeight + kLegendRow * static_cast<double>(chart.lines.size()) + 8, chart.title);
  for (int tick = 0; tick * y_step <= y.to + y_step / 2; ++tick) {
    rule(svg, kLeft, y.at(tick * y_step), kWidth - 24, y.at(tick * y_step));
    text(svg, kLeft - 6, y.at(tick * y_step) + 4, "end", absl::StrFormat("%.6g", tick * y_step));
  }
  for (size_t category = 0; category < chart.categories.size(); ++category)
    text(svg, x.at(static_cast<double>(category)), kHeight - kBottom + 16, "middle", chart.categories[category]);
  text(svg, (kLeft + kWidth) / 2, kHeight - kBottom + 34, "middle", chart.x_axis);
  text(svg, kLeft, kTop - 8, "start", chart.y_axis);
  std::vector<std::string> names;
  for (size_t number = 0; number < chart.lines.size(); ++number) {
    const Curve& line = chart.lines[number];
    names.push_back(line.name);
    std::string path;
    for (const auto& [position, value] : line.points) {
      absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", x.at(position), y.at(value));
      absl::StrAppendFormat(&svg,
                            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%s: %.15g</title></circle>\n",
                            x.at(position), y.at(value), colorOf(number), xmlEscaped(line.name), value);
    }
    if (line.points.size() > 1)
      absl::StrAppendFormat(&svg, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path,
                            colorOf(number));
  }
  legend(svg, names, kHeight + 4);
  return svg + "</svg>\n";
}

std::string ganttSvg(const Gantt& gantt) {
  double end = 0;
  size_t letters = 8;
  std::map<std::string, size_t> kinds;
  for (const Bar& bar : gantt.bars) {
    end = std::max(end, bar.to);
    kinds.try_emplace(bar.kind, kinds.size());
  }
  for (const std::string& lane : gantt.lanes) letters = std::max(letters, lane.size());
  const double left = std::max(kLeft, 16 + 6.2 * static_cast<double>(letters));
  const double bottom = kTop + kRow * static_cast<double>(gantt.lanes.size());
  const double height = bottom + kBottom + kLegendRow * static_cast<double>(kinds.size());
  const Scale x{0, std::max(end, 1e-9), left, kWidth - 24};
  std::string svg = head(kWidth, height, gantt.title);
  const double step = tickStep(x.to, 10);
  for (double tick = 0; tick <= x.to + step / 1e6; tick += step) {
    rule(svg, x.at(tick), kTop, x.at(tick), bottom);
    text(svg, x.at(tick), bottom + 16, "middle", absl::StrFormat("%.6g s", tick));
  }
  for (size_t lane = 0; lane < gantt.lanes.size(); ++lane)
    text(svg, left - 6, kTop + kRow * static_cast<double>(lane) + 13, "end", gantt.lanes[lane]);
  for (const Bar& bar : gantt.bars)
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"%s><title>%s</title>"
                          "</rect>\n",
                          x.at(bar.from), kTop + kRow * bar.lane + 2, std::max(0.75, x.at(bar.to) - x.at(bar.from)),
                          kRow - 4, colorOf(kinds[bar.kind]),
                          bar.failed ? " stroke=\"#d00000\" stroke-width=\"1.5\"" : "", xmlEscaped(bar.tooltip));
  std::vector<std::string> names(kinds.size());
  for (const auto& [kind, number] : kinds) names[number] = kind;
  legend(svg, names, bottom + 36);
  return svg + "</svg>\n";
}

}  // namespace tessera::client
