#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/dataflow_search/annealing.h"
#include "compiler/dataflow_search/needed.h"
#include "compiler/dataflow_search/search.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::dataflow_search {
namespace {

using loopnest::Nest;

/// Prices of the search and of the analysis may differ by rounding.
constexpr double kRounding = 1e-9;
/// Phases are joined after so many expansions; the number doubles each time.
constexpr size_t kFirstBatch = 64, kLargestBatch = 16384;
/// Open tiles of a batch.
constexpr size_t kOpenInBatch = 4;

/// Spaces with more trees than these are annealed first, with more proposals if the space is large.
constexpr double kTreesToAnneal = 5e5, kTreesOfLargeSpace = 1e8;
constexpr int64_t kProposals = 20'000, kProposalsOfLargeSpace = 150'000;

/// Expansions after which a sample of the space is left for a larger one.
constexpr int64_t kSampledExpansions = 600, kAllExpansions = std::numeric_limits<int64_t>::max();

PhaseCost smaller(const PhaseCost& left, const PhaseCost& right) {
  return {.cycles = std::min(left.cycles, right.cycles),
          .out = std::min(left.out, right.out),
          .in = std::min(left.in, right.in),
          .sending = std::min(left.sending, right.sending),
          .receiving = std::min(left.receiving, right.receiving),
          .energy = std::min(left.energy, right.energy)};
}

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr PhaseCost kImpossible{
    .cycles = kNone, .out = kNone, .in = kNone, .sending = kNone, .receiving = kNone, .energy = kNone};

class ExactSearch {
 public:
  ExactSearch(const Nest& nest, const cost::Machine& machine, const Options& options)
      : nest_(nest),
        machine_(machine),
        options_(options),
        figures_{.cycles = options.front || options.objective != Objective::kEnergy,
                 .energy = options.front || options.objective == Objective::kEnergy ||
                           options.objective == Objective::kEnergyDelay,
                 .resources = true},
        statements_(static_cast<int>(nest.statements.size())),
        needed_(nest) {
    for (int thread = 0; thread < std::max(1, options.threads); ++thread)
      spaces_.push_back(
          std::make_unique<PhaseSpace>(nest, machine, figures_, options.restriction, [this] { return isStopped(); }));
  }

  absl::StatusOr<Answer> run() {
    TESSERA_ASSIGN_OR_RETURN(answer_.bound, lowerBound(nest_, machine_, options_.objective));
    if (!options_.restriction.ignore_limits) answer_.obstacle = tooLargeTile(nest_, machine_);
    if (!answer_.obstacle.empty()) {
      answer_.complete = true;
      answer_.space_bound = answer_.bound.score;
      return std::move(answer_);
    }
    if (trees() > kTreesToAnneal) {
      searchByAnnealing(nest_, machine_,
                        {.objective = options_.objective,
                         .restriction = options_.restriction,
                         .seed = options_.seed,
                         .threads = options_.threads,
                         .proposals = std::min(options_.most_proposals,
                                               trees() > kTreesOfLargeSpace ? kProposalsOfLargeSpace : kProposals),
                         .stopped = options_.stopped,
                         .better = [this](const Found& better) { keep(better); }});
    }
    // Sparse samples of the space come first, unless there is a tree: they give an answer soon, which excludes most of
    // the rest.
    bool finished = false;
    for (const size_t stride : {size_t{997}, size_t{101}, size_t{31}, size_t{7}, size_t{1}}) {
      if (stride > 1 && answer_.best && !options_.front) continue;
      collect(stride);
      TESSERA_ASSIGN_OR_RETURN(finished, search(stride > 1 ? expanded_ + kSampledExpansions : kAllExpansions));
      if (isStopped() || (!options_.front && best_score_ <= answer_.bound.score)) break;
    }
    answer_.complete = (finished && collected_all_) || best_score_ <= answer_.bound.score;
    answer_.expanded = expanded_;
    for (const auto& space : spaces_) answer_.measured += space->measured();
    answer_.space_bound = spaceBound();
    if (answer_.complete && answer_.best)
      answer_.space_bound = std::max(answer_.bound.score, std::min(least_score_, best_score_));
    std::ranges::sort(answer_.front, {}, [](const Found& found) { return found.cost.cycles; });
    return std::move(answer_);
  }

 private:
  /// Expands candidates until no other can be part of a better run, or `most` were expanded in all. Returns whether no
  /// other is left.
  absl::StatusOr<bool> search(int64_t most) {
    for (size_t batch = kFirstBatch;; batch = std::min(2 * batch, kLargestBatch)) {
      TESSERA_ASSIGN_OR_RETURN(const bool more, expand(batch));
      TESSERA_RETURN_IF_ERROR(join());
      if (isStopped()) return false;
      if (!more) return true;
      if (expanded_ >= most) return false;
    }
  }

  struct Candidate {
    SharedTiles shared;
    PhaseCost at_least;
    double score = 0;  ///< that no run with it is below
    size_t number = 0;
  };
  using CandidateOption = std::pair<const Candidate*, PhaseOption>;
  /// A run of the first statements.
  struct Run {
    PhaseCost cost;
    std::vector<std::pair<const Candidate*, const PhaseOption*>> phases;
  };

  bool isStopped() {
    if (!stopped_ && options_.stopped()) stopped_ = true;
    return stopped_;
  }

  /// Calls work for each thread number, in parallel.
  void inParallel(size_t threads, const std::function<void(size_t)>& work) {
    std::vector<std::thread> others;
    for (size_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
    for (std::thread& thread : others) thread.join();
  }

  static Value valueOf(const PhaseCost& cost) {
    return {.cycles = std::max({cost.cycles, cost.sending, cost.receiving}),
            .energy_pj = cost.energy,
            .bytes = cost.out + cost.in};
  }
  double scoreOf(const PhaseCost& cost) const { return dataflow_search::scoreOf(valueOf(cost), options_.objective); }

  /// Cycles of some statements if all units and ports of the chip work for them.
  struct Busy {
    double operations = 0, read = 0, written = 0;
    double cycles() const { return std::max({operations, read, written}); }
    Busy operator-(const Busy& other) const {
      return {
          .operations = operations - other.operations, .read = read - other.read, .written = written - other.written};
    }
  };
  Busy busyFor(int begin, int end) const {
    double rate = 0;
    for (const cost::Machine::Unit& unit : machine_.units)
      rate = std::max(rate, static_cast<double>(unit.count) * unit.operations_per_cycle);
    const cost::Machine::Memory& innermost = machine_.memories.front();
    const auto instances = static_cast<double>(innermost.instances);
    Busy busy;
    for (int s = begin; s < end; ++s) {
      const NeededWork work = neededWork(nest_, needed_, s);
      busy.operations += work.operations / rate;
      busy.read += work.read_bytes / (instances * innermost.read_bytes_per_cycle);
      busy.written += work.written_bytes / (instances * innermost.write_bytes_per_cycle);
    }
    return busy;
  }

  bool mayEndAt(int begin, int end) const {
    const std::vector<int>& ends = options_.restriction.phase_ends;
    if (ends.empty()) return true;
    const auto is_end = [&](int position) {
      return position == 0 || position == statements_ || std::ranges::find(ends, position) != ends.end();
    };
    if (!is_end(begin) || !is_end(end)) return false;
    for (int inside = begin + 1; inside < end; ++inside)
      if (is_end(inside)) return false;
    return true;
  }

  /// Collects sets of shared tiles and sorts them by their lower bounds: one of `stride`, or all that may be part of a
  /// better run.
  void collect(size_t stride) {
    // A set of an earlier stage was expanded, or it is collected again.
    candidates_.clear();
    next_ = 0;
    for (auto& options : options_of_) options.clear();
    least_.assign(static_cast<size_t>(statements_),
                  std::vector<PhaseCost>(static_cast<size_t>(statements_ + 1), kImpossible));
    const Busy all = busyFor(0, statements_);
    for (int length = 1; length <= statements_ && !isStopped(); ++length) {
      for (int begin = 0; begin + length <= statements_; ++begin) {
        const int end = begin + length;
        if (!mayEndAt(begin, end)) continue;
        const double others = (all - busyFor(begin, end)).cycles();
        const auto accept = [&](double cycles) {
          Value least = answer_.bound.least;
          least.cycles = std::max(least.cycles, cycles + others);
          return !isExcluded(least);
        };
        collectPhase(begin, end, stride, accept);
      }
    }
    if (stride == 1) collected_all_ = !isStopped();
    answer_.phases = static_cast<int64_t>(candidates_.size());
    // Lower bounds for the statements before and after, for phases of any kind.
    std::vector<PhaseCost> before(static_cast<size_t>(statements_ + 1), kImpossible), after = before;
    before.front() = after.back() = {};
    for (int end = 1; end <= statements_; ++end)
      for (int begin = 0; begin < end; ++begin)
        at(before, end) = smaller(at(before, end), at(before, begin) + at(at(least_, begin), end));
    for (int begin = statements_ - 1; begin >= 0; --begin)
      for (int end = begin + 1; end <= statements_; ++end)
        at(after, begin) = smaller(at(after, begin), at(at(least_, begin), end) + at(after, end));
    after_ = after;
    for (Candidate& candidate : candidates_)
      candidate.score =
          scoreOf(at(before, candidate.shared.begin) + candidate.at_least + at(after, candidate.shared.end));
    std::ranges::sort(candidates_, [](const Candidate& left, const Candidate& right) {
      return std::pair(left.score, left.number) < std::pair(right.score, right.number);
    });
    before_ = std::move(before);
    options_of_.resize(static_cast<size_t>(statements_) * static_cast<size_t>(statements_ + 1));
  }

  /// Every thread enumerates all cuts and measures the tiles of its section. Candidates get the numbers that one thread
  /// would give them. Samples are small.
  void collectPhase(int begin, int end, size_t stride, const std::function<bool(double)>& accept) {
    struct Section {
      std::vector<size_t> cuts;  ///< of each candidate
      std::vector<Candidate> candidates;
      PhaseCost least = kImpossible;
    };
    const size_t threads = stride == 1 ? spaces_.size() : 1;
    std::vector<Section> sections(threads);
    inParallel(threads, [&](size_t thread) {
      size_t cut = 0;
      Section& section = sections[thread];
      spaces_[thread]->forEach(
          begin, end, stride, {.number = thread, .of = threads}, cut, accept,
          [&](const SharedTiles& shared, const PhaseCost& at_least) {
            section.least = smaller(section.least, at_least);
            section.cuts.push_back(cut);
            section.candidates.push_back({.shared = shared, .at_least = at_least, .score = 0, .number = 0});
          });
    });
    // The tiles of one cut are in one section, in the order of the enumeration.
    std::vector<size_t> next(threads, 0);
    while (true) {
      size_t first = threads;
      for (size_t thread = 0; thread < threads; ++thread) {
        if (next[thread] == sections[thread].cuts.size()) continue;
        if (first == threads || sections[thread].cuts[next[thread]] < sections[first].cuts[next[first]]) first = thread;
      }
      if (first == threads) break;
      Candidate& candidate = sections[first].candidates[next[first]++];
      candidate.number = candidates_.size();
      candidates_.push_back(std::move(candidate));
    }
    PhaseCost& least = at(at(least_, begin), end);
    for (const Section& section : sections) least = smaller(least, section.least);
  }

  std::vector<CandidateOption>& optionsOf(int begin, int end) {
    return options_of_[static_cast<size_t>(begin) * static_cast<size_t>(statements_ + 1) + static_cast<size_t>(end)];
  }

  bool isExcluded(const PhaseCost& at_least) const { return isExcluded(valueOf(at_least)); }
  bool isExcluded(const Value& value) const {
    if (options_.front) {
      return std::ranges::any_of(answer_.front, [&](const Found& found) {
        return isAtLeastAsGood(dataflow_search::valueOf(found.cost), value);
      });
    }
    return dataflow_search::scoreOf(value, options_.objective) >= best_score_;
  }

  /// The options of a candidate, or of all inside of an open one that may be part of a better run.
  struct Mapped {
    std::vector<std::unique_ptr<Candidate>> inside;  ///< of an open one, with options
    std::vector<CandidateOption> options;
    std::optional<Found> best;  ///< of the runs of one phase
    absl::Status status;
    int64_t expanded = 0;
    bool finished = false;
  };

  /// Maps the operators of the next candidates. Returns false if none is left that could be part of a better run. A
  /// batch is the same for any number of threads: better runs are known after it only.
  absl::StatusOr<bool> expand(size_t batch) {
    const size_t first = next_;
    std::vector<size_t> taken;
    bool more = false;
    for (size_t cost = 0; next_ < candidates_.size(); ++next_) {
      const Candidate& candidate = candidates_[next_];
      const PhaseCost least =
          at(before_, candidate.shared.begin) + candidate.at_least + at(after_, candidate.shared.end);
      if (!options_.front && candidate.score >= best_score_) break;
      if (isExcluded(least)) continue;
      more = cost >= batch;
      if (more) break;
      // Open tiles have many inside, which may have a better run.
      cost += spaces_[0]->isOpen(candidate.shared) ? std::max<size_t>(1, batch / kOpenInBatch) : 1;
      taken.push_back(next_);
    }
    std::vector<Mapped> mapped(taken.size());
    std::atomic<size_t> position = 0;
    inParallel(std::min(spaces_.size(), taken.size()), [&](size_t thread) {
      for (size_t i = position++; i < taken.size(); i = position++) {
        mapOperators(candidates_[taken[i]], *spaces_[thread], mapped[i]);
        mapped[i].finished = !isStopped();
      }
    });
    for (size_t i = 0; i < taken.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(mapped[i].status);
      expanded_ += mapped[i].expanded;
      if (mapped[i].best) keep(*std::move(mapped[i].best));
      for (auto& [candidate, option] : mapped[i].options)
        add(*candidate, std::move(option), optionsOf(candidate->shared.begin, candidate->shared.end));
      std::ranges::move(mapped[i].inside, std::back_inserter(inner_candidates_));
    }
    const auto open = std::ranges::find(mapped, false, &Mapped::finished);
    if (open == mapped.end()) return more;
    next_ = open == mapped.begin() ? first : taken[static_cast<size_t>(open - mapped.begin())];
    return true;
  }

  /// Prices the option if it is a run that may be better. Options of equal cost by the search's model have different
  /// prices, and join() keeps one of them.
  void priceRun(const Candidate& candidate, const PhaseOption& option, Mapped& mapped) const {
    if (options_.front || candidate.shared.begin > 0 || candidate.shared.end < statements_) return;
    if (!mapped.status.ok() || isExcluded(option.cost)) return;
    absl::StatusOr<Found> found = priced({.cost = option.cost, .phases = {{&candidate, &option}}});
    if (!found.ok()) {
      mapped.status = found.status();
    } else if (found->score < (mapped.best ? mapped.best->score : best_score_)) {
      mapped.best = *std::move(found);
    }
  }

  void mapOperators(const Candidate& candidate, PhaseSpace& space, Mapped& mapped) {
    const SharedTiles& shared = candidate.shared;
    if (!space.isOpen(shared)) {
      std::vector<PhaseOption> options = space.options(shared, limitOf(candidate));
      if (isStopped()) return;
      ++mapped.expanded;
      for (const PhaseOption& option : options) priceRun(candidate, option, mapped);
      for (PhaseOption& option : options) add(candidate, std::move(option), mapped.options);
      return;
    }
    const PhaseCost others = at(before_, shared.begin) + at(after_, shared.end);
    const auto accept = [&](double cycles) {
      Value least = answer_.bound.least;
      least.cycles = std::max(least.cycles, cycles + others.cycles);
      return !isExcluded(least);
    };
    space.forEachInside(shared, accept, [&](const SharedTiles& inner, const PhaseCost& at_least) {
      if (isStopped() || isExcluded(others + at_least)) return;
      auto inside =
          std::make_unique<Candidate>(Candidate{.shared = inner, .at_least = at_least, .score = 0, .number = 0});
      mapOperators(*inside, space, mapped);
      const bool used =
          std::ranges::any_of(mapped.options, [&](const auto& each) { return each.first == inside.get(); });
      if (used) mapped.inside.push_back(std::move(inside));
    });
  }

  /// Cycles of the phase, and of the outermost memory's ports, that a better run does not exceed.
  PhaseCost limitOf(const Candidate& candidate) const {
    if (options_.front || best_score_ == kNone) return kImpossible;
    const SharedTiles& shared = candidate.shared;
    const PhaseCost others = at(before_, shared.begin) + at(after_, shared.end);
    double most = kNone;
    if (options_.objective == Objective::kCycles) most = best_score_;
    const double energy = others.energy + candidate.at_least.energy;
    if (options_.objective == Objective::kEnergyDelay && energy > 0) most = best_score_ / energy;
    PhaseCost limit = kImpossible;
    if (most == kNone) return limit;
    limit.cycles = (most - others.cycles) * (1 + kRounding);
    limit.sending = (most - others.sending) * (1 + kRounding);
    limit.receiving = (most - others.receiving) * (1 + kRounding);
    return limit;
  }

  /// Adds an option unless another one is at least as good, and removes those that it is as good as.
  void add(const Candidate& candidate, PhaseOption option, std::vector<CandidateOption>& known) const {
    for (const auto& [other, each] : known)
      if (isAtLeastAsGood(each.cost, option.cost)) return;
    std::erase_if(known, [&](const auto& each) { return isAtLeastAsGood(option.cost, each.second.cost); });
    known.emplace_back(&candidate, std::move(option));
  }

  bool isAtLeastAsGood(const PhaseCost& left, const PhaseCost& right) const {
    if (figures_.energy && left.energy > right.energy) return false;
    if (options_.front || options_.objective == Objective::kBytes) {
      if (left.out + left.in > right.out + right.in) return false;
      if (options_.objective == Objective::kBytes && !options_.front) return left.cycles <= right.cycles;
    }
    return !figures_.cycles ||
           (left.cycles <= right.cycles && left.sending <= right.sending && left.receiving <= right.receiving);
  }

  /// Joins phases to runs, and keeps the best ones.
  absl::Status join() {
    std::vector<std::vector<Run>> runs(static_cast<size_t>(statements_ + 1));
    runs.front().push_back({});
    for (int begin = 0; begin < statements_; ++begin) {
      for (int end = begin + 1; end <= statements_; ++end) {
        for (const Run& run : at(runs, begin)) {
          for (const auto& [candidate, option] : optionsOf(begin, end)) {
            const PhaseCost cost = run.cost + option.cost;
            if (isExcluded(cost + at(after_, end))) continue;
            std::vector<Run>& longer = at(runs, end);
            if (std::ranges::any_of(longer, [&](const Run& other) { return isAtLeastAsGood(other.cost, cost); }))
              continue;
            std::erase_if(longer, [&](const Run& other) { return isAtLeastAsGood(cost, other.cost); });
            Run next{.cost = cost, .phases = run.phases};
            next.phases.emplace_back(candidate, &option);
            longer.push_back(std::move(next));
          }
        }
      }
    }
    for (const Run& run : runs.back()) TESSERA_RETURN_IF_ERROR(take(run));
    return absl::OkStatus();
  }

  /// Prices a run that may be better. Bounds are those of the search's model; best trees are by compiler/cost.
  absl::Status take(const Run& run) {
    const double least = scoreOf(run.cost);
    least_score_ = std::min(least_score_, least);
    if (isExcluded(run.cost)) return absl::OkStatus();
    TESSERA_ASSIGN_OR_RETURN(Found found, priced(run));
    keep(std::move(found));
    return absl::OkStatus();
  }

  void keep(Found found) {
    if (options_.front) addToFront(found);
    if (found.score >= best_score_) return;
    best_score_ = found.score;
    answer_.best = std::move(found);
    if (options_.better) options_.better(*answer_.best, std::min(spaceBound(), best_score_));
  }

  /// How many trees the largest operator has, by the order of magnitude: cuts of its loops at each level but the leaf.
  double trees() const {
    double most = 0;
    for (const loopnest::Statement& statement : nest_.statements) {
      double cuts = 1;
      for (const int loop : statement.loops) {
        const auto divisors = static_cast<double>(divisorsOf(at(nest_.loops, loop).extent).size());
        cuts *= divisors * (divisors + 1) / 2;
      }
      most = std::max(most, std::pow(cuts, static_cast<double>(machine_.memories.size() - 1)));
    }
    return most;
  }

  static bool isAtLeastAsGood(const Value& left, const Value& right) {
    return left.cycles <= right.cycles && left.energy_pj <= right.energy_pj && left.bytes <= right.bytes;
  }

  void addToFront(const Found& found) {
    const Value value = dataflow_search::valueOf(found.cost);
    const auto valueOfFound = [](const Found& each) { return dataflow_search::valueOf(each.cost); };
    for (const Found& each : answer_.front)
      if (isAtLeastAsGood(valueOfFound(each), value)) return;
    std::erase_if(answer_.front, [&](const Found& each) { return isAtLeastAsGood(value, valueOfFound(each)); });
    answer_.front.push_back(found);
  }

  /// The tree, with the price of compiler/cost. Energy and bytes have to agree with the search's.
  absl::StatusOr<Found> priced(const Run& run) const {
    Found found;
    for (const auto& [candidate, option] : run.phases)
      *found.tree.add_phases() = spaces_[0]->tree(candidate->shared, option->operators);
    TESSERA_ASSIGN_OR_RETURN(found.cost, analyzeDataflow(nest_, found.tree, machine_));
    const Value ours = valueOf(run.cost), theirs = dataflow_search::valueOf(found.cost);
    found.score = dataflow_search::scoreOf(theirs, options_.objective);
    const auto differ = [](double left, double right) {
      return std::abs(left - right) > kRounding * std::max(std::abs(left), std::abs(right));
    };
    // The model of cycles leaves out what does not overlap, so that parts add up: it is a lower bound.
    if ((figures_.cycles && theirs.cycles < ours.cycles * (1 - kRounding)) ||
        (figures_.energy && differ(ours.energy_pj, theirs.energy_pj)) || differ(ours.bytes, theirs.bytes) ||
        (!found.cost.violations.empty() && !options_.restriction.ignore_limits))
      return absl::InternalError(
          absl::StrCat("the search priced a tree at ", ours.cycles, " cycles, ", ours.energy_pj, " pJ and ", ours.bytes,
                       " bytes, the analysis at ", theirs.cycles, ", ", theirs.energy_pj, " and ", theirs.bytes,
                       found.cost.violations.empty() ? "" : absl::StrCat(" with ", found.cost.violations.front())));
    return found;
  }

  /// A lower bound for the candidates that are left.
  double spaceBound() const {
    double least = std::min(best_score_, least_score_);
    if (next_ < candidates_.size()) least = std::min(least, candidates_[next_].score);
    if (!collected_all_ || least == kNone) least = answer_.bound.score;
    return std::max(least, answer_.bound.score);
  }

  const Nest& nest_;
  const cost::Machine& machine_;
  const Options& options_;
  const Figures figures_;
  std::vector<std::unique_ptr<PhaseSpace>> spaces_;  ///< one for each thread
  const int statements_;
  std::atomic<bool> stopped_ = false;
  bool collected_all_ = false;
  Needed needed_;
  std::vector<Candidate> candidates_;
  std::vector<std::unique_ptr<Candidate>> inner_candidates_;  ///< inside of open ones, with options
  size_t next_ = 0;
  int64_t expanded_ = 0;
  std::vector<std::vector<PhaseCost>> least_;  ///< of a phase from one statement to another
  std::vector<PhaseCost> before_, after_;
  std::vector<std::vector<CandidateOption>> options_of_;
  double best_score_ = kNone;
  double least_score_ = kNone;  ///< of all runs, by the search's model
  Answer answer_;
};

}  // namespace

double Answer::gapInSpace() const {
  return !best || best->score <= 0 ? 0 : std::max(0.0, 1 - space_bound / best->score);
}
double Answer::gapToBound() const {
  return !best || best->score <= 0 ? 0 : std::max(0.0, 1 - bound.score / best->score);
}

absl::StatusOr<Answer> searchExact(const Nest& nest, const cost::Machine& machine, const Options& options) {
  TESSERA_RETURN_IF_ERROR(checkSearchable(nest, machine));
  return ExactSearch(nest, machine, options).run();
}

}  // namespace tessera::compiler::dataflow_search
