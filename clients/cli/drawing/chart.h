#pragma once

#include <string>
#include <utility>
#include <vector>

/// Charts as standalone SVG files.
namespace tessera::client {

/// A step function: the value stays constant until the next point.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y), sorted by x
};
std::string curveSvg(const std::string& title, const std::string& x_axis, const std::string& y_axis,
                     const std::vector<Curve>& curves);

/// Lines over named positions. A line has a point at each position with a value: (position, value).
struct CategoryChart {
  std::string title, x_axis, y_axis;
  std::vector<std::string> categories;
  std::vector<Curve> lines;
};
std::string categorySvg(const CategoryChart& chart);

/// One activity with its time interval.
struct Bar {
  int lane = 0;  ///< index into Gantt.lanes
  double from = 0, to = 0;
  std::string kind;  ///< bars of one kind share a colour
  std::string tooltip;
  bool failed = false;  ///< drawn with an outline
};
struct Gantt {
  std::string title;
  std::vector<std::string> lanes;
  std::vector<Bar> bars;  ///< in seconds since the start
};
std::string ganttSvg(const Gantt& gantt);

/// Returns a step of 1, 2 or 5 times a power of ten that divides `span` into about `parts` parts.
double tickStep(double span, int parts);

/// Escapes text for XML; characters that XML 1.0 forbids are replaced.
std::string xmlEscaped(const std::string& words);

}  // namespace tessera::client
