#pragma once

#include <string>
#include <utility>
#include <vector>

/// Charts as SVG, placed here: any browser shows them.
namespace tessera::client {

/// What becomes of a number: a line that keeps its value until the next point.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, y; by x
};
std::string curveSvg(const std::string& title, const std::string& x_axis, const std::string& y_axis,
                     const std::vector<Curve>& curves);

/// What somebody did, and when.
struct Bar {
  int lane = 0;  ///< of Gantt.lanes
  double from = 0, to = 0;
  std::string kind;  ///< bars of a kind share a colour
  std::string tooltip;
  bool failed = false;  ///< outlined
};
struct Gantt {
  std::string title;
  std::vector<std::string> lanes;
  std::vector<Bar> bars;  ///< in seconds from the start
};
std::string ganttSvg(const Gantt& gantt);

/// 1, 2 or 5 times a power of ten: about `parts` of them make `span`.
double tickStep(double span, int parts);

/// Text as XML: markup escaped, what XML 1.0 does not allow replaced.
std::string xmlEscaped(const std::string& words);

}  // namespace tessera::client
