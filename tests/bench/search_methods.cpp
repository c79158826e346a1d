// Trials and time that each search method needs to reach the same quality. The cases are the convolutions of YOLO v1
// and the operators of the thesis's table 4.2: real kernels, built and timed in this process, alternating with the
// default.
//   search_methods [--cases C1,C8,GMM|yolo|table|all] [--methods q,p,random,evolutionary,model,walk] [--seeds N]
//                  [--trials N] [--quality 0.95] [--minutes N] [--start analysis|far]
//   search_methods --write FOLDER [--cases ...]: the cases as files of tensor expressions, for other benchmarks
// Quality is a share of the best speed that any method found for the case. The fastest trees are timed again for this,
// since the fastest of hundreds of single timings is partly luck. Searches start from the analysis, as in the service.
// `far` starts from a tree that random steps, equal for all methods of a seed, have made four times as slow, as
// FlexTensor does (thesis, 4.6). Each tree is built and timed once and charged in full to each method that proposes it.
// --minutes divides the time among the cases: all methods run with one seed, and with further seeds while time is left.
// Not a test; prints tables. Run it on an idle machine.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "compiler/backends/cpu/static_analysis.h"
#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"
#include "compiler/schedule/text.h"
#include "compiler/search/draw.h"
#include "compiler/search/search.h"
#include "compiler/space/operators.h"
#include "compiler/target/host.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5, kTurns = 3;
constexpr size_t kConfirmed = 5;     // number of fastest trees that are timed again ...
constexpr int kConfirmTurns = 11;    // ... in this many rounds
constexpr double kFar = 0.25;        // of the default's speed
constexpr int kMaxSteps = 200;       // most steps are rejected, or are not slower
constexpr double kTolerance = 1e-3;  // of the largest magnitude: sums in another order

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}
void check(tessera_status status) {
  if (status != TESSERA_OK) fail(tessera_last_error());
}
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Table 4.3: input and output channels, extent, window, stride.
struct Layer {
  int c, k, extent, window, stride;
};
constexpr Layer kYolo[] = {{3, 64, 448, 7, 2},     {64, 192, 112, 3, 1},   {192, 128, 56, 1, 1},  {128, 256, 56, 3, 1},
                           {256, 256, 56, 1, 1},   {256, 512, 56, 3, 1},   {512, 256, 28, 1, 1},  {256, 512, 28, 3, 1},
                           {512, 512, 28, 1, 1},   {512, 1024, 28, 3, 1},  {1024, 512, 14, 1, 1}, {512, 1024, 14, 3, 1},
                           {1024, 1024, 14, 3, 1}, {1024, 1024, 14, 3, 2}, {1024, 1024, 7, 3, 1}};

struct Case {
  std::string name, text;
};

std::string convolution(const Layer& layer) {
  const int pad = layer.window / 2, padded = layer.extent + 2 * pad;
  const int out = (padded - layer.window) / layer.stride + 1;
  const std::string border =
      pad == 0 ? ""
               : absl::StrFormat(
                     "P[n, c, y, x] = (y >= %d) & (y < %d) & (x >= %d) & (x < %d) ? X[n, c, y - %d, x - %d] : 0"
                     " where y < %d, x < %d;",
                     pad, layer.extent + pad, pad, layer.extent + pad, pad, pad, padded, padded);
  return absl::StrFormat(
      "input X[1, %d, %d, %d], W[%d, %d, %d, %d]: f32; %s"
      "Y[n, k, y, x] += %s[n, c, %d * y + r, %d * x + s] * W[k, c, r, s] where y < %d, x < %d;",
      layer.c, layer.extent, layer.extent, layer.k, layer.c, layer.window, layer.window, border, pad == 0 ? "X" : "P",
      layer.stride, layer.stride, out, out);
}

std::vector<Case> casesOf(const std::string& wanted) {
  std::vector<Case> all;
  for (size_t at = 0; at < std::size(kYolo); ++at) all.push_back({absl::StrCat("C", at + 1), convolution(kYolo[at])});
  const size_t layers = all.size();
  for (const compiler::space::Operator& each : compiler::space::operators()) all.push_back({each.name, each.text});
  if (wanted == "all") return all;
  if (wanted == "yolo") return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(layers)};
  if (wanted == "table") return {all.begin() + static_cast<std::ptrdiff_t>(layers), all.end()};
  std::vector<Case> chosen;
  for (const auto name : absl::StrSplit(wanted, ',')) {
    const auto found = std::ranges::find(all, std::string(name), &Case::name);
    if (found == all.end()) fail(absl::StrCat("--cases: there is no ", std::string(name)));
    chosen.push_back(*found);
  }
  return chosen;
}

/// Floats aligned to a cache line, as trial tensors in the service are; otherwise a copy would gain by alignment alone.
class Floats {
 public:
  explicit Floats(size_t size)
      : size_(size),
        data_(static_cast<float*>(std::aligned_alloc(kLine, (size * sizeof(float) + kLine) / kLine * kLine))) {
    std::fill_n(data_.get(), size, 0.F);
  }
  float* data() { return data_.get(); }
  size_t size() const { return size_; }
  float& operator[](size_t at) { return data_.get()[at]; }
  float operator[](size_t at) const { return data_.get()[at]; }

 private:
  static constexpr size_t kLine = 64;
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  size_t size_;
  std::unique_ptr<float, Free> data_;
};

/// A loaded artifact with its buffers.
class Loaded {
 public:
  explicit Loaded(const fs::path& artifact) {
    check(tessera_artifact_load(artifact.c_str(), 0, &artifact_));
    check(tessera_session_create(artifact_, 1, &session_));
    tessera_tensor_info info;
    for (size_t i = 0; i < tessera_artifact_num_inputs(artifact_); ++i) {
      check(tessera_artifact_input(artifact_, i, &info));
      Floats& data = inputs_data_.emplace_back(sizeOf(info));
      for (size_t at = 0; at < data.size(); ++at) data[at] = static_cast<float>((at * 7919 + i) % 1000) / 500.F - 1;
      inputs_.push_back({data.data(), data.size() * sizeof(float)});
    }
    for (size_t i = 0; i < tessera_artifact_num_outputs(artifact_); ++i) {
      check(tessera_artifact_output(artifact_, i, &info));
      Floats& data = outputs_data_.emplace_back(sizeOf(info));
      outputs_.push_back({data.data(), data.size() * sizeof(float)});
    }
  }
  Loaded(const Loaded&) = delete;
  ~Loaded() {
    tessera_session_destroy(session_);
    tessera_artifact_destroy(artifact_);
  }

  double milliseconds() {
    const auto start = Clock::now();
    check(tessera_session_run(session_, inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size()));
    return 1000 * secondsSince(start);
  }
  bool sameAs(const Loaded& other) const {
    for (size_t output = 0; output < outputs_data_.size(); ++output) {
      float largest = 0, off = 0;
      for (size_t at = 0; at < outputs_data_[output].size(); ++at) {
        largest = std::max(largest, std::fabs(other.outputs_data_[output][at]));
        const float here = std::fabs(outputs_data_[output][at] - other.outputs_data_[output][at]);
        off = std::isnan(here) ? HUGE_VALF : std::max(off, here);
      }
      if (!(off <= kTolerance * largest)) return false;
    }
    return true;
  }

 private:
  static size_t sizeOf(const tessera_tensor_info& info) {
    size_t size = 1;
    for (int d = 0; d < static_cast<int>(info.rank); ++d) size *= static_cast<size_t>(info.shape[d]);
    return size;
  }
  tessera_artifact* artifact_ = nullptr;
  tessera_session* session_ = nullptr;
  std::vector<Floats> inputs_data_, outputs_data_;
  std::vector<tessera_const_buffer> inputs_;
  std::vector<tessera_buffer> outputs_;
};

/// One case: its plan, and the workload with most of the work.
class Bench {
 public:
  Bench(const Case& each, const v1::Target& target, const fs::path& folder) : folder_(folder) {
    fs::create_directories(folder);
    const fs::path text = folder / (each.name + ".te");
    std::ofstream(text) << each.text;
    compiler::PlanRequest request;
    request.model_path = text;
    request.spec.set_name(each.name);
    request.target = target;
    auto planned = compiler::plan(request, [](const v1::Progress&) {});
    if (!planned.ok()) fail(absl::StrCat(each.name, ": ", std::string(planned.status().message())));
    plan_ = *std::move(planned);
    for (int at = 1; at < plan_.plan.workloads_size(); ++at)
      if (plan_.plan.workloads(at).flops() > plan_.plan.workloads(main_).flops()) main_ = at;
    for (const v1::BuildUnit& unit : plan_.units) {
      auto built = compiler::build(unit);
      if (!built.ok()) fail(std::string(built.status().message()));
      objects_.push_back(*std::move(built));
    }
    default_ = load(objects_, plan_.units[static_cast<size_t>(main_)].schedule());
    default_->milliseconds();
  }

  const v1::BuildUnit& unit() const { return plan_.units[static_cast<size_t>(main_)]; }

  struct Answer {
    double speed = 0, seconds = 0;
  };
  /// Speed relative to the default; 0 if it cannot be built or is wrong.
  const Answer& answerOf(const v1::Schedule& schedule) {
    const auto [place, asked] = known_.try_emplace(compiler::printSchedule(schedule));
    if (!asked) return place->second;
    const auto start = Clock::now();
    place->second.speed = timed(schedule, kTurns);
    place->second.seconds = secondsSince(start);
    return place->second;
  }

  /// Best speed of the trees that were fastest once, timed again.
  double confirmedBest() {
    std::vector<std::pair<double, std::string>> fastest;
    for (const auto& [text, answer] : known_) fastest.emplace_back(answer.speed, text);
    std::ranges::sort(fastest, std::greater<>());
    fastest.resize(std::min(kConfirmed, fastest.size()));
    double most = 0;
    for (const auto& [speed, text] : fastest)
      if (const auto schedule = compiler::parseSchedule(text); schedule.ok())
        most = std::max(most, timed(*schedule, kConfirmTurns));
    return most;
  }

 private:
  /// Speed relative to the default, median of the rounds; 0 if it cannot be built or is wrong.
  double timed(const v1::Schedule& schedule, int turns) {
    v1::BuildUnit unit = this->unit();
    *unit.mutable_schedule() = schedule;
    auto built = compiler::build(unit);
    if (!built.ok()) return 0;
    std::vector<v1::BuiltObject> objects = objects_;
    objects[static_cast<size_t>(main_)] = *std::move(built);
    const std::unique_ptr<Loaded> candidate = load(objects, schedule);
    candidate->milliseconds();
    return candidate->sameAs(*default_) ? compare(*candidate, turns) : 0;
  }

  double compare(Loaded& candidate, int turns) {
    std::vector<double> ratios;
    for (int turn = 0; turn < turns; ++turn) {
      double base = HUGE_VAL, mine = HUGE_VAL;
      for (int run = 0; run < kRuns; ++run) base = std::min(base, default_->milliseconds());
      for (int run = 0; run < kRuns; ++run) mine = std::min(mine, candidate.milliseconds());
      ratios.push_back(base / mine);
    }
    return median(std::move(ratios));
  }

  std::unique_ptr<Loaded> load(const std::vector<v1::BuiltObject>& objects, const v1::Schedule& schedule) {
    compiler::AssembleRequest assemble;
    assemble.name = "candidate";
    assemble.plan = plan_.plan;
    *assemble.plan.mutable_workloads(main_)->mutable_schedule() = schedule;
    assemble.objects = objects;
    assemble.artifact_path = folder_ / "candidate.tsra";
    if (auto manifest = compiler::assemble(assemble); !manifest.ok()) fail(std::string(manifest.status().message()));
    return std::make_unique<Loaded>(assemble.artifact_path);
  }

  fs::path folder_;
  compiler::PlanResult plan_;
  int main_ = 0;
  std::vector<v1::BuiltObject> objects_;
  std::unique_ptr<Loaded> default_;
  std::map<std::string, Answer> known_;
};

struct Curve {
  std::vector<double> speeds, seconds;  ///< best so far, and time passed, after each trial
  int refused = 0;
};

compiler::search::SearchOptions optionsOf(const Bench& bench, uint64_t seed, const v1::Target& target) {
  compiler::search::SearchOptions options;
  options.seed = seed;
  options.registers = target.registers();
  if (auto analysis = compiler::analyzeWorkload(bench.unit()); analysis.ok()) options.extents = analysis->extents;
  return options;
}

/// Start of a search: a tree, and its speed relative to the default.
struct Start {
  v1::Schedule schedule;
  double speed = 1;
};

/// Takes random steps from the default that make it slower, until it is slow enough or no step is found.
Start farFromDefault(Bench& bench, const compiler::search::SearchOptions& options) {
  Start at{bench.unit().schedule()};
  const compiler::search::Legality legality(at.schedule, options.extents, options.registers);
  std::mt19937_64 random(options.seed);
  for (int step = 0; step < kMaxSteps && at.speed > kFar; ++step) {
    const auto neighbours = compiler::search::neighboursOf(at.schedule, legality.extents());
    if (neighbours.empty()) break;
    const v1::Schedule& next = neighbours[compiler::search::below(random, neighbours.size())].schedule;
    if (!legality.refusal(next).empty()) continue;
    const double found = bench.answerOf(next).speed;
    if (found > 0 && found < at.speed) at = Start{next, found};
  }
  return at;
}

Curve searched(Bench& bench, const std::string& method, const compiler::search::SearchOptions& options,
               const Start& begin, int trials) {
  auto search = compiler::search::makeSearch(method, begin.schedule, options);
  if (!search.ok()) fail(std::string(search.status().message()));
  Curve curve;
  double passed = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const auto start = Clock::now();
    const auto candidate = (*search)->propose();
    if (!candidate) break;
    passed += secondsSince(start);
    const Bench::Answer& answer = bench.answerOf(candidate->schedule);
    passed += answer.seconds;
    curve.refused += answer.speed > 0 ? 0 : 1;
    const auto told = Clock::now();
    (*search)->observe(*candidate, {answer.speed / begin.speed});
    passed += secondsSince(told);
    curve.speeds.push_back((*search)->speed() * begin.speed);
    curve.seconds.push_back(passed);
  }
  return curve;
}

struct Options {
  std::string cases = "yolo";
  std::vector<std::string> methods = {"q", "p", "random", "evolutionary", "model"};
  int seeds = 3, trials = 60;
  int minutes = 0;  // 0: no limit
  double quality = 0.95;
  bool far = false;
  std::string write;
};

int number(const std::string& flag, const std::string& value) {
  int number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < 1) fail(flag + " " + value + ": 1 or more is accepted");
  return number;
}

Options parsed(int argc, char** argv) {
  Options options;
  for (int at = 1; at + 1 < argc; at += 2) {
    const std::string flag = argv[at], value = argv[at + 1];
    if (flag == "--cases") {
      options.cases = value;
    } else if (flag == "--methods") {
      options.methods = absl::StrSplit(value, ',');
    } else if (flag == "--seeds") {
      options.seeds = number(flag, value);
    } else if (flag == "--trials") {
      options.trials = number(flag, value);
    } else if (flag == "--minutes") {
      options.minutes = number(flag, value);
    } else if (flag == "--start") {
      if (value != "analysis" && value != "far") fail("--start " + value + ": analysis or far");
      options.far = value == "far";
    } else if (flag == "--write") {
      options.write = value;
    } else if (flag == "--quality") {
      if (!absl::SimpleAtod(value, &options.quality)) fail(flag + " " + value + ": no number");
    } else {
      fail("unknown flag " + flag);
    }
  }
  return options;
}

void writeCases(const std::vector<Case>& cases, const fs::path& folder) {
  fs::create_directories(folder);
  for (const Case& each : cases)
    if (!(std::ofstream(folder / (each.name + ".te")) << each.text << "\n")) fail(folder.string() + ": cannot write");
}

int run(int argc, char** argv) {
  const Options options = parsed(argc, argv);
  const std::vector<Case> cases = casesOf(options.cases);
  if (!options.write.empty()) {
    writeCases(cases, options.write);
    return 0;
  }
  auto target = compiler::detectHostTarget();
  if (!target.ok()) fail(std::string(target.status().message()));
  const fs::path folder = fs::temp_directory_path() / absl::StrCat("search_methods-", getpid());
  std::printf("%s; seeds 1 to %d, %d trials each; to %.0f %% of the best speed that anybody found\n",
              target->summary().c_str(), options.seeds, options.trials, 100 * options.quality);
  std::printf("%-5s %-13s %6s %22s %22s %8s %9s\n", "case", "method", "best", "trials (least-most)",
              "seconds (least-most)", "reached", "refused");
  std::map<std::string, std::map<std::string, double>> trials_of, seconds_of;
  const auto begun = Clock::now();
  for (size_t at = 0; at < cases.size(); ++at) {
    const Case& each = cases[at];
    const auto case_begun = Clock::now();
    const double share = (60.0 * options.minutes - secondsSince(begun)) / static_cast<double>(cases.size() - at);
    Bench bench(each, *target, folder);
    std::map<std::string, std::vector<Curve>> curves;
    int seeds = 0;
    while (seeds < options.seeds) {
      ++seeds;
      const compiler::search::SearchOptions search = optionsOf(bench, static_cast<uint64_t>(seeds), *target);
      const Start start = options.far ? farFromDefault(bench, search) : Start{bench.unit().schedule()};
      for (const std::string& method : options.methods)
        curves[method].push_back(searched(bench, method, search, start, options.trials));
      const double passed = secondsSince(case_begun);
      if (options.minutes > 0 && passed + passed / seeds > share) break;
    }
    const double best = std::max(options.far ? 0 : 1.0, bench.confirmedBest());
    for (const std::string& method : options.methods) {
      std::vector<double> trials, seconds, speeds;
      int reached = 0, refused = 0;
      for (const Curve& curve : curves[method]) {
        const auto at = std::ranges::find_if(curve.speeds, [&](double s) { return s >= options.quality * best; });
        const auto trial = static_cast<size_t>(at - curve.speeds.begin());
        reached += at != curve.speeds.end() ? 1 : 0;
        refused += curve.refused;
        trials.push_back(static_cast<double>(std::min(trial + 1, curve.speeds.size())));
        seconds.push_back(curve.seconds.empty() ? 0 : curve.seconds[std::min(trial, curve.seconds.size() - 1)]);
        speeds.push_back(curve.speeds.empty() ? 1 : curve.speeds.back());
      }
      trials_of[method][each.name] = median(trials);
      seconds_of[method][each.name] = median(seconds);
      const auto range = [](const std::vector<double>& values, const char* form) {
        const auto [least, most] = std::ranges::minmax(values);
        return absl::StrCat(absl::StrFormat(*absl::ParsedFormat<'f'>::New(form), median(values)), " (",
                            absl::StrFormat(*absl::ParsedFormat<'f'>::New(form), least), "-",
                            absl::StrFormat(*absl::ParsedFormat<'f'>::New(form), most), ")");
      };
      std::printf("%-5s %-13s %6.2f %22s %22s %5d/%d %8d\n", each.name.c_str(), method.c_str(), median(speeds),
                  range(trials, "%.0f").c_str(), range(seconds, "%.1f").c_str(), reached, seeds, refused);
      std::fflush(stdout);
    }
  }
  fs::remove_all(folder);
  for (const std::string& method : options.methods)
    for (const std::string& other : options.methods) {
      if (method == other) continue;
      double in_trials = 0, in_seconds = 0;
      for (const auto& [name, trials] : trials_of[method]) {
        in_trials += std::log(std::max(1.0, trials) / std::max(1.0, trials_of[other][name]));
        in_seconds += std::log(std::max(1e-3, seconds_of[method][name]) / std::max(1e-3, seconds_of[other][name]));
      }
      const auto count = static_cast<double>(trials_of[method].size());
      std::printf("%s takes %.2f of %s's trials and %.2f of its time (geometric mean of %.0f cases)\n", method.c_str(),
                  std::exp(in_trials / count), other.c_str(), std::exp(in_seconds / count), count);
    }
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::run(argc, argv); }
