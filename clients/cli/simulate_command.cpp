// tessera simulate: runs operators as programs of a described chip, step by step, with cycle counts.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/analysis.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/operator_flags.h"
#include "clients/cli/output.h"
#include "clients/cli/target_flag.h"
#include "compiler/backends/spatial/simulate.h"
#include "proto/support/status_macros.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::client {
namespace {

using compiler::loopnest::Nest;
using compiler::simulator::Question;
using compiler::simulator::Ranking;
using compiler::simulator::Simulation;
using compiler::simulator::Traffic;

struct SimulateFlags {
  AnalysisFlags model;
  OperatorFlags op;
  Question question;
  std::string program_out;
  bool rank = false;
};

/// A loop nest, and the nodes of the model that it computes.
struct Subject {
  Nest nest;
  std::vector<std::string> nodes, operators;
};

/// Nodes that cannot be mapped, by reason.
struct Unmapped {
  std::vector<std::string> nodes, operators;
};

struct Work {
  std::vector<Subject> subjects;
  std::map<std::string, Unmapped> left;
};

/// Identifies equal nests by their elements and types, so that each is simulated once.
std::string keyOf(const Nest& nest) {
  std::string key = print(nest);
  for (const auto& loop : nest.loops) absl::StrAppend(&key, ",", loop.extent);
  for (const auto& access : nest.accesses) absl::StrAppend(&key, ":", access.dtype);
  return key;
}

absl::StatusOr<Work> workOfModel(CommandLine& line, AnalysisFlags question) {
  question.model.target = "host";  // loop nests do not depend on the target
  TESSERA_ASSIGN_OR_RETURN(auto bytes, requestAnalysis(line, question, v1::AnalyzeSpec::EXPLAIN));
  v1::Explanation explanation;
  if (!explanation.ParseFromString(bytes)) return absl::DataLossError("the service's report cannot be read");
  Work work;
  std::map<std::string, size_t> known;
  for (const v1::OperatorNest& described : explanation.operators()) {
    std::string name = absl::StrCat("#", described.node()), op;
    if (described.node() >= 0 && described.node() < explanation.before().nodes_size()) {
      const auto& node = explanation.before().nodes(described.node());
      if (!node.name().empty()) name = node.name();
      op = node.op();
    }
    const absl::StatusOr<Nest> nest = compiler::intrinsic::nestOf(described);
    if (!nest.ok()) {
      Unmapped& left = work.left[std::string(nest.status().message())];
      left.nodes.push_back(name);
      left.operators.push_back(op);
      continue;
    }
    const auto [row, fresh] = known.emplace(keyOf(*nest), work.subjects.size());
    if (fresh) work.subjects.push_back({*nest, {}, {}});
    work.subjects[row->second].nodes.push_back(name);
    work.subjects[row->second].operators.push_back(op);
  }
  return work;
}

std::string jsonList(const std::vector<std::string>& words) {
  return absl::StrCat(
      "[", absl::StrJoin(words, ",", [](std::string* out, const auto& word) { *out += jsonString(word); }), "]");
}

std::string mappingOf(const Simulation& answer) {
  const auto& choice = answer.program.choice;
  return mappingText(choice.software, answer.program.instruction, choice.matching);
}

std::string jsonOf(const Subject& subject, const Simulation& answer) {
  const auto& time = answer.timeline;
  const auto& checked = answer.checked;
  const std::string traffic = absl::StrJoin(time.traffic, ",", [](std::string* out, const Traffic& entry) {
    absl::StrAppendFormat(out, R"({"memory":%s,"read_bytes":%d,"written_bytes":%d})", jsonString(entry.memory),
                          entry.read_bytes, entry.written_bytes);
  });
  return absl::StrCat(
      absl::StrFormat(
          R"({"nodes":%s,"loops":%s,"instruction":%s,"mapping":%s,"mappings":%d,"converted":%s,"calls":%d,"copies":%d,)",
          jsonList(subject.nodes), jsonString(print(subject.nest)), jsonString(answer.program.choice.intrinsic.name()),
          jsonString(mappingOf(answer)), answer.mappings, answer.converted ? "true" : "false", time.calls, time.copies),
      absl::StrFormat(
          R"("fills":%d,"cycles":%.1f,"predicted_cycles":%.1f,"ratio":%.4f,"utilization":%.4f,"busiest":%s,"busy":%.4f,)",
          time.fills, time.cycles, answer.predicted(), time.cycles / std::max(answer.predicted(), 1e-9),
          time.utilization, jsonString(time.busiest), time.busy),
      absl::StrFormat(R"("picojoules":%.1f,"traffic":[%s],"results":%d,"compared":%d,"wrong":%d,)", time.picojoules,
                      traffic, checked.of, checked.results, checked.wrong),
      absl::StrFormat(R"("largest_error":%.6g,"share_of_bound":%.6g,"unchecked":%s})", checked.largest_error,
                      checked.largest_error_ratio, jsonString(answer.unchecked)));
}

/// "exact" or "2.1e-07 (3 % of its bound)", with the fraction of the results that was computed.
std::string checkText(const Simulation& answer) {
  const auto& checked = answer.checked;
  if (checked.of == 0) return answer.unchecked;
  if (!checked.right()) return absl::StrCat(checked.wrong, " wrong: ", checked.first_wrong);
  std::string text = !checked.floating ? "exact"
                                       : absl::StrFormat("%.1e, %.1f %% of its bound", checked.largest_error,
                                                         100 * checked.largest_error_ratio);
  const double part = 100 * static_cast<double>(checked.results) / static_cast<double>(checked.of);
  return checked.whole() ? text : absl::StrCat(text, absl::StrFormat(", of %.2g %%", part));
}

/// Prints one operator with its program.
void printOne(const Simulation& answer) {
  std::cout << print(answer.program);
  std::vector<std::vector<std::string>> rows;
  for (const Traffic& entry : answer.timeline.traffic) {
    rows.push_back({entry.memory, bytesText(entry.read_bytes), bytesText(entry.written_bytes)});
  }
  std::cout << table({"MEMORY", "READ", "WRITTEN"}, rows);
}

class Report {
 public:
  explicit Report(const v1::Target& target) : target_(target) {}

  void add(const Subject& subject, const Simulation& answer) {
    const auto& time = answer.timeline;
    const auto count = static_cast<double>(subject.nodes.size());
    cycles_ += count * time.cycles;
    predicted_ += count * answer.predicted();
    picojoules_ += count * time.picojoules;
    frequency_ = answer.program.frequency_ghz;
    mapped_ += subject.nodes.size();
    wrong_ += answer.checked.wrong;
    programs_ += programs_.empty() ? "" : "\n";
    programs_ += print(answer.program);
    entries_.push_back(jsonOf(subject, answer));
    rows_.push_back({subject.nodes.front() + andMore(static_cast<int64_t>(subject.nodes.size()) - 1),
                     absl::StrCat(answer.program.choice.intrinsic.name(), answer.converted ? " (converted)" : ""),
                     mappingOf(answer), absl::StrCat(time.calls), absl::StrCat(time.copies + time.fills),
                     absl::StrFormat("%.0f", time.cycles), absl::StrFormat("%.0f", answer.predicted()),
                     absl::StrFormat("%.2f", time.cycles / std::max(answer.predicted(), 1e-9)),
                     absl::StrFormat("%.1f %%", 100 * time.utilization),
                     absl::StrFormat("%s %.0f %%", time.busiest, 100 * time.busy), checkText(answer)});
  }

  void leave(const std::string& reason, const Unmapped& left) {
    left_ += left.nodes.size();
    std::map<std::string, int> counts;
    for (const std::string& op : left.operators) ++counts[op];
    std::vector<std::string> words;
    for (const auto& [op, count] : counts) words.push_back(absl::StrCat(count, " ", op.empty() ? "nests" : op));
    constexpr size_t kShown = 6;
    const size_t more = words.size() - std::min(words.size(), kShown);
    words.resize(words.size() - more);
    if (more > 0) words.emplace_back("...");
    left_rows_.emplace_back(std::vector<std::string>{absl::StrJoin(words, ", "), reason});
    left_entries_.push_back(absl::StrFormat(R"({"nodes":%s,"why":%s})", jsonList(left.nodes), jsonString(reason)));
  }

  void show(bool json) const {
    if (json) {
      std::cout
          << absl::StrFormat(
                 R"({"target":%s,"operators":[%s],"not_mapped":[%s],"nests":%d,"mapped":%d,"cycles":%.1f,"predicted_cycles":%.1f,"picojoules":%.1f})",
                 jsonString(target_.name()), absl::StrJoin(entries_, ","), absl::StrJoin(left_entries_, ","),
                 mapped_ + left_, mapped_, cycles_, predicted_, picojoules_)
          << "\n";
      return;
    }
    if (!rows_.empty()) {
      std::cout << table({"NODE", "INSTRUCTION", "MAPPING", "CALLS", "COPIES", "CYCLES", "PREDICTED", "RATIO", "USE",
                          "BUSIEST", "LARGEST ERROR"},
                         rows_);
    }
    if (!left_rows_.empty()) std::cout << table({"NOT MAPPED", "WHY"}, left_rows_);
    std::cout << absl::StrFormat("%d of %d nests on %s: %.0f cycles simulated", mapped_, mapped_ + left_,
                                 target_.name(), cycles_);
    if (frequency_ > 0)
      std::cout << absl::StrFormat(" (%s at %g GHz)", durationText(cycles_ / frequency_ * 1e-6), frequency_);
    std::cout << absl::StrFormat(", %.0f predicted", predicted_);
    if (picojoules_ > 0) std::cout << absl::StrFormat(", %.3g uJ", picojoules_ * 1e-6);
    std::cout << "\n";
  }

  const std::string& programs() const { return programs_; }
  int64_t wrong() const { return wrong_; }

 private:
  const v1::Target& target_;
  std::vector<std::vector<std::string>> rows_, left_rows_;
  std::vector<std::string> entries_, left_entries_;
  std::string programs_;
  double cycles_ = 0, predicted_ = 0, picojoules_ = 0, frequency_ = 0;
  size_t mapped_ = 0, left_ = 0;
  int64_t wrong_ = 0;
};

int rankings(const CommandLine& line, const v1::Target& target, const Work& work, const Question& question) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> entries;
  double pairs = 0, apart = 0, recall = 0;
  size_t ranked = 0;
  for (const Subject& subject : work.subjects) {
    const absl::StatusOr<Ranking> found = compiler::simulator::rank(subject.nest, target, question);
    if (!found.ok() || found->predicted.size() < 2) continue;
    const size_t count = found->predicted.size();
    pairs += found->pairs;
    apart += found->apart;
    recall += found->recall;
    ++ranked;
    rows.push_back({subject.nodes.front(), absl::StrCat(count), absl::StrCat(found->refused),
                    absl::StrFormat("%.1f %%", 100 * found->pairs), absl::StrFormat("%.1f %%", 100 * found->apart),
                    absl::StrFormat("%.1f %%", 100 * found->recall)});
    entries.push_back(absl::StrFormat(
        R"({"node":%s,"mappings":%d,"refused":%d,"pairs":%.4f,"apart":%.4f,"recall":%.4f})",
        jsonString(subject.nodes.front()), count, found->refused, found->pairs, found->apart, found->recall));
  }
  if (ranked == 0) {
    return reportError(absl::UnimplementedError(absl::StrCat("no operator has two mappings on ", target.name(),
                                                             " that fit; there is no order")),
                       line.json);
  }
  pairs /= static_cast<double>(ranked);
  apart /= static_cast<double>(ranked);
  recall /= static_cast<double>(ranked);
  if (line.json) {
    std::cout << absl::StrFormat(R"({"target":%s,"operators":[%s],"pairs":%.4f,"apart":%.4f,"recall":%.4f})",
                                 jsonString(target.name()), absl::StrJoin(entries, ","), pairs, apart, recall)
              << "\n";
    return kExitOk;
  }
  std::cout << table({"NODE", "MAPPINGS", "REFUSED", "PAIRS", "1 % APART", "RECALL OF THE BEST 40 %"}, rows)
            << absl::StrFormat(
                   "mean of %d: %.1f %% of pairs, %.1f %% of pairs that differ by more than 1 %%, %.1f %% of the best; "
                   "thesis, against a GPU: 85.7 %% of pairs, 91.4 %% of the best\n",
                   ranked, 100 * pairs, 100 * apart, 100 * recall);
  return kExitOk;
}

absl::StatusOr<Work> workOf(CommandLine& line, const SimulateFlags& flags, const v1::Target& target,
                            Question& question) {
  if (flags.op.text.empty() == flags.model.model.model.empty()) {
    return absl::InvalidArgumentError("give a MODEL or --op, and not both");
  }
  if (flags.op.text.empty()) return workOfModel(line, flags.model);
  TESSERA_ASSIGN_OR_RETURN(const auto nest, flags.op.nest());
  TESSERA_ASSIGN_OR_RETURN(const auto intrinsic, instructionOf(target, question.instruction));
  question.instruction = intrinsic.name();
  question.typed = false;  // an expression states no types
  Work work;
  work.subjects.push_back({nest, {nest.name}, {""}});
  return work;
}

int simulate(CommandLine& line, const SimulateFlags& flags) {
  const auto target = describedTarget(line, flags.model.model.target);
  if (!target.ok()) return reportError(target.status(), line.json);
  Question question = flags.question;
  const auto work = workOf(line, flags, *target, question);
  if (!work.ok()) return reportError(work.status(), line.json);
  if (flags.rank) return rankings(line, *target, *work, question);
  const bool single = !flags.op.text.empty();
  Report report(*target);
  std::map<std::string, Unmapped> left = work->left;
  for (const Subject& subject : work->subjects) {
    const absl::StatusOr<Simulation> answer = compiler::simulator::simulate(subject.nest, *target, question);
    if (!answer.ok()) {
      if (answer.status().code() == absl::StatusCode::kInternal) return reportError(answer.status(), line.json);
      if (single) return reportError(absl::UnimplementedError(answer.status().message()), line.json);
      Unmapped& entry = left[std::string(answer.status().message())];
      entry.nodes.insert(entry.nodes.end(), subject.nodes.begin(), subject.nodes.end());
      entry.operators.insert(entry.operators.end(), subject.operators.begin(), subject.operators.end());
      continue;
    }
    if (single && !line.json && flags.program_out.empty()) printOne(*answer);
    report.add(subject, *answer);
  }
  for (const auto& [reason, nodes] : left) report.leave(reason, nodes);
  if (!flags.program_out.empty()) {
    if (absl::Status status = writeText(flags.program_out, report.programs()); !status.ok()) {
      return reportError(status, line.json);
    }
  }
  report.show(line.json);
  return report.wrong() > 0 ? kExitInternal : kExitOk;
}

}  // namespace

void addSimulateCommand(CommandLine& line) {
  CLI::App* command = line.add("simulate", "Simulate operators on a described chip, step by step, with cycle counts");
  auto flags = std::make_shared<SimulateFlags>();
  flags->model.addTo(command);
  command->get_option("MODEL")->required(false);
  flags->op.addTo(command, "one operator instead of a model: a name of table 5.3 (tessera mappings)");
  command->add_option("--instruction", flags->question.instruction,
                      "instruction of the target; default: the cheapest, with --op the one that `mappings` uses");
  command->add_option("--program-out", flags->program_out, "write the programs to this file");
  command
      ->add_option("--points", flags->question.most_points,
                   "limit of an operator's points that are computed and compared with its loops; further tiles of the "
                   "result are omitted; 0: time only")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 36))
      ->capture_default_str();
  command->add_option("--seed", flags->question.seed, "seed of the tensors that programs run on")
      ->capture_default_str();
  command->add_flag("--rank", flags->rank,
                    "time every mapping instead, and report how well the predicted cycles order them");
  command->footer(
      "The cheapest mapping of an operator becomes loops, copies between the described memories, and calls. "
      "The\nsimulator runs the program by the description of the instruction and compares it with the operator's "
      "loops;\nlatencies and bandwidths give the cycles. PREDICTED is the cost model's value; "
      "compiler/backends/spatial/README.md\ndocuments both. With --op, built-in targets and files need no server.");
  command->callback([&line, flags] { line.action = [&line, flags] { return simulate(line, *flags); }; });
}

}  // namespace tessera::client
