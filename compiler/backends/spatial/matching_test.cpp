// Programs of arbitrary matchings, right and wrong ones, compared with the operator's loops and with algorithm 4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/spatial/addressing.h"
#include "compiler/backends/spatial/check.h"
#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/testing/chips.h"
#include "compiler/backends/spatial/walk.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/intrinsic/standard_operators.h"
#include "compiler/intrinsic/testing/instructions.h"
#include "compiler/intrinsic/verify.h"

namespace tessera::compiler::simulator {
namespace {

using intrinsic::Choice;
using intrinsic::Matching;
using loopnest::Nest;

enum class Agreement {
  kEqual,    // the program computes the same as the operator's loops
  kDiffers,  // it does not
  // equal, but neighbouring positions of an operand's blocks hold the same element, so that a copy duplicates it; a
  // transfer statement (definition 4) moves each element to one position only
  kReplicates,
  kIdle,       // equal, but an iteration of the instruction has no loop and computes only padding
  kCannotRun,  // there is no program, or it fails
};

struct Simulated {
  Agreement agreement = Agreement::kCannotRun;
  std::string what;  // the element, loop, iteration or error
};

/// The element that the copies place where iteration `iteration` of the instruction has the value `index`, counted
/// through all blocks, and all other iterations are 0.
int64_t elementAt(const Program& program, const Addressing& addressing, size_t operand, size_t iteration,
                  int64_t index) {
  const loopnest::Access& access = program.instruction.accesses[operand];
  const int64_t size = program.instruction.loops[iteration].extent;
  std::vector<int64_t> block(program.dimensions.size(), 0), point(program.instruction.loops.size(), 0), subscripts;
  block[iteration] = index / size;
  point[iteration] = index % size;
  for (const loopnest::Subscript& subscript : access.subscripts) subscripts.push_back(subscript.at(point));
  const int64_t wanted = intrinsic::rowMajor(subscripts, shapeOf(program.instruction, access));
  int64_t found = -1;
  addressing.forEachElement(block, [&](int64_t position, int64_t element) {
    if (position == wanted) found = element;
  });
  return found;
}

/// A loop along which neighbouring positions of an operand's blocks hold the same element; empty if none.
std::string replicated(const Program& program) {
  const Choice& choice = program.choice;
  for (size_t operand = 0; operand < program.walks.size(); ++operand) {
    const Addressing addressing(program, operand);
    for (size_t i = 0; i < choice.mapping.groups.size(); ++i) {
      const intrinsic::Group& group = choice.mapping.groups[i];
      if (!program.instruction.accesses[operand].uses(static_cast<int>(i))) continue;
      int64_t weight = group.extent;
      for (const int loop : group.loops) {
        const loopnest::Loop& walked = choice.software.loops[loop];
        weight /= walked.extent;
        if (walked.extent < 2) continue;
        const int64_t here = elementAt(program, addressing, operand, i, 0);
        const int64_t next = elementAt(program, addressing, operand, i, weight);
        if (here != next) continue;
        return absl::StrCat(choice.software.accesses[arrayOf(choice.matching, operand)].name, " along ", walked.name);
      }
    }
  }
  return "";
}

/// Runs the program of a matching, whether that is right or wrong, on random tensors from `seed`. Loops of one point
/// hide errors: extents are two or more. Algorithm 4 refuses matchings of the kinds kReplicates and kIdle although
/// their values are right.
Simulated simulated(const Nest& software, const v1::Target& chip, const v1::Intrinsic& described,
                    const Matching& matching, uint64_t seed) {
  absl::StatusOr<Choice> choice = tiled(software, described, matching, chip);
  if (!choice.ok()) return {Agreement::kCannotRun, std::string(choice.status().message())};
  const absl::StatusOr<Program> program =
      lower(*std::move(choice), chip, {.reductions_innermost = seed % 2 == 1, .overlap = seed % 3 == 0});
  if (!program.ok()) return {Agreement::kCannotRun, std::string(program.status().message())};
  const absl::StatusOr<Checked> checked = check(*program, seed, 1 << 24);
  if (!checked.ok()) return {Agreement::kCannotRun, std::string(checked.status().message())};
  if (!checked->right()) return {Agreement::kDiffers, checked->first_wrong};
  if (!checked->whole()) return {Agreement::kCannotRun, "only a part of its results is computed"};
  if (std::string what = replicated(*program); !what.empty()) return {Agreement::kReplicates, std::move(what)};
  for (size_t i = 0; i < program->choice.mapping.groups.size(); ++i) {
    if (program->choice.mapping.groups[i].loops.empty()) return {Agreement::kIdle, program->instruction.loops[i].name};
  }
  return {Agreement::kEqual, ""};
}

/// Small operators of every kind, with extents that no instruction divides.
std::vector<Nest> smallOperators() {
  std::vector<Nest> nests;
  for (const intrinsic::StandardOperator& standard : intrinsic::standardOperators()) {
    Nest nest = nestOf(standard);
    const bool many = nest.loops.size() > 7;
    for (size_t i = 0; i < nest.loops.size(); ++i) nest.loops[i].extent = !many && i % 3 == 1 ? 3 : 2;
    if (std::string(standard.name) == "T2D") {
      nest = loopnest::parse("T2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[c, k, 1 - r, 2 - s]",
                             {2, 3, 2, 2, 3, 2, 3})
                 .value();
    }
    nests.push_back(std::move(nest));
  }
  nests.push_back(testing::nestOf("O[n, p] += I[n, 2 * p + r] * W[r]", {2, 5, 2}));
  nests.push_back(testing::nestOf("O[n, p] += I[n, p + r] * W[r]", {2, 5, 3}));
  nests.push_back(testing::nestOf("O[i, j, l] += A[i, k] * B[k, j]", {2, 3, 2, 2}));
  return nests;
}

/// Two units of small matrices, vectors, rows and windows. Registers and "shared" hold few blocks, so that programs
/// have loops.
v1::Target smallChip() {
  v1::Target chip = testing::chipOf(R"(
    name: "small" family: SPATIAL registers { vector_bits: 256 vector_count: 2 }
    memory { name: "shared" capacity_bytes: 64 bandwidth_bytes_per_cycle: 8 shared_by: 1 }
    memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 shared_by: 1 }
    units { name: "unit" count: 2 lanes: 1 frequency_ghz: 1 ops_per_cycle: 16 })");
  for (v1::Intrinsic unit : {intrinsic::testing::smallMatrixUnit(), intrinsic::testing::smallAxpy(),
                             intrinsic::testing::smallGemv(), intrinsic::testing::smallWindow()}) {
    unit.set_latency_cycles(2);
    *chip.add_intrinsics() = std::move(unit);
  }
  return chip;
}

// The verifier works on boolean matrices, the simulator on bytes: for thousands of right and wrong candidates both must
// agree.
TEST(Matching, VerificationAndExecutionAgreeOnThousandsOfCandidates) {
  const v1::Target chip = smallChip();
  std::mt19937 draw(7);
  std::map<Agreement, int> seen;
  int candidates = 0, correct = 0;
  for (const Nest& software : smallOperators()) {
    for (const v1::Intrinsic& described : chip.intrinsics()) {
      const Nest unit = intrinsic::nestOf(described).value();
      const intrinsic::Mappings right = intrinsic::enumerateMappings(software, unit);
      std::vector<Matching> tried(right.matchings.begin(),
                                  right.matchings.begin() + std::min<size_t>(right.matchings.size(), 20));
      Nest whole = intrinsic::withUnitLoops(software, unit, {1, 2});
      if (whole.loops.size() != right.software.loops.size()) tried.clear();
      const int iterations = static_cast<int>(unit.loops.size());
      for (int i = 0; i < 80; ++i) {
        Matching& matching = tried.emplace_back(Matching{std::vector<int>(whole.loops.size()), {1, 2}});
        if (draw() % 2 == 0) std::swap(matching.source[0], matching.source[1]);
        for (int& iteration : matching.iteration) iteration = static_cast<int>(draw() % (iterations + 1)) - 1;
        // Half of the candidates are one loop away from a right one.
        if (i % 2 == 0 && !right.matchings.empty() && whole.loops.size() == right.software.loops.size()) {
          matching = right.matchings[draw() % right.matchings.size()];
          matching.iteration[draw() % whole.loops.size()] = static_cast<int>(draw() % (iterations + 1)) - 1;
        }
      }
      for (const Matching& matching : tried) {
        // Loops of one point hide errors, so a stand-in with another matching is no candidate.
        bool stands = true;
        for (size_t loop = software.loops.size(); loop < whole.loops.size(); ++loop) {
          stands = stands &&
                   unit.loops[matching.iteration[loop] < 0 ? 0 : matching.iteration[loop]].name ==
                       whole.loops[loop].name.substr(4) &&
                   matching.iteration[loop] >= 0;
        }
        if (!stands || (matching.source[0] == 2 && whole.loops.size() != software.loops.size())) continue;
        const intrinsic::Verdict verdict = verify(whole, unit, matching);
        const Simulated run = simulated(whole, chip, described, matching, 1000 + candidates);
        ++candidates;
        correct += verdict.correct;
        ++seen[run.agreement];
        EXPECT_EQ(verdict.correct, run.agreement == Agreement::kEqual)
            << print(software) << " on " << described.name() << ": " << ::testing::PrintToString(matching.iteration)
            << ::testing::PrintToString(matching.source) << " " << verdict.reason << " / "
            << static_cast<int>(run.agreement) << " " << run.what;
      }
    }
  }
  EXPECT_GT(candidates, 3000);
  EXPECT_GT(correct, 400);
  EXPECT_GT(seen[Agreement::kDiffers], 1000);
  EXPECT_GT(seen[Agreement::kIdle], 20);
  EXPECT_GT(seen[Agreement::kReplicates], 0);
  EXPECT_EQ(seen[Agreement::kCannotRun], 0);
  RecordProperty("candidates", candidates);
  std::cout << candidates << " candidates, " << correct << " correct, " << seen[Agreement::kDiffers] << " differ, "
            << seen[Agreement::kIdle] << " idle, " << seen[Agreement::kReplicates] << " replicate\n";
}

TEST(Matching, EveryMappingOfABuiltInUnitComputesTheOperator) {
  const Nest software =
      testing::nestOf("O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {2, 17, 3, 3, 5, 2, 2});
  for (const auto& [target, name] : {std::pair{"ascend-910-like", "cube.s8"},
                                     {"sapphirerapids", "tdpbssd"},
                                     {"sm_80", "mma.m16n8k32.s8.s32"},
                                     {"neoverse-v1", "smmla.128"}}) {
    v1::Target chip = *findBuiltinTarget(target);
    // A description states the size of vector registers only. AMX has registers of its own, 8 KiB.
    if (std::string(name) == "tdpbssd") chip.mutable_registers()->set_vector_count(128);
    const v1::Intrinsic described = intrinsic::testing::builtinInstruction(target, name);
    const intrinsic::Mappings mappings = intrinsic::enumerateMappings(software, intrinsic::nestOf(described).value());
    ASSERT_EQ(mappings.matchings.size(), 35u) << name;
    for (size_t i = 0; i < mappings.matchings.size(); i += 6) {
      const Simulated run = simulated(mappings.software, chip, described, mappings.matchings[i], i);
      EXPECT_EQ(run.agreement, Agreement::kEqual) << name << " " << run.what;
    }
  }
}

/// The steps of programs whose tiles are single blocks, as text; stops after `most`.
class Trace : public Machine {
 public:
  Trace(const Program& program, size_t most) : program_(program), most_(most) {
    for (size_t operand = 0; operand < program.walks.size(); ++operand) addressing_.emplace_back(program, operand);
  }

  absl::Status fill(const Step& step, const Place&) override { return add(step, program_.buffers[step.to]); }
  absl::Status call(const Step& step, const Place&) override { return add(stepText(program_, step)); }
  absl::Status runVector(const Step& step, const Place&, const Piece&) override {
    return add(stepText(program_, step));
  }
  absl::Status copy(const Step& step, const Place& place, const Piece& piece) override {
    EXPECT_EQ(piece.count, 1);
    const Buffer &from = program_.buffers[step.from], &to = program_.buffers[step.to];
    if (!from.tensor && !to.tensor) return add(step, to);
    std::vector<bool> present((from.tensor ? to : from).offsets.size());
    addressing_[step.operand].forEachElement(place.first, [&](int64_t position, int64_t) { present[position] = true; });
    const auto padded = std::count(present.begin(), present.end(), false);
    return add(step, from.tensor ? to : from, padded > 0 ? absl::StrCat(", ", padded, " padded") : "");
  }

  const std::vector<std::string>& steps() const { return steps_; }

 private:
  absl::Status add(const Step& step, const Buffer& block, const std::string& padding = "") {
    return add(absl::StrCat(stepText(program_, step), ", ", block.offsets.size(), " elements", padding));
  }
  absl::Status add(std::string text) {
    if (steps_.size() == most_) return absl::CancelledError("enough");
    steps_.push_back(std::move(text));
    return absl::OkStatus();
  }

  const Program& program_;
  const size_t most_;
  std::vector<Addressing> addressing_;
  std::vector<std::string> steps_;
};

/// A matrix product on the cube, in tiles of one block.
Program productInBlocks(const std::vector<int64_t>& extents) {
  const v1::Target& chip = *findBuiltinTarget("ascend-910-like");
  const v1::Intrinsic cube = intrinsic::testing::builtinInstruction("ascend-910-like", "cube.f16");
  Choice choice =
      intrinsic::tiled(testing::nestOf("O[i, j] += A[i, k] * B[k, j]", extents), cube, {{0, 1, 2}, {1, 2}}, chip)
          .value();
  for (size_t level = 0; level + 1 < choice.tiling.size(); ++level) choice.tiling[level] = {1, 1, 1};
  return lower(std::move(choice), chip).value();
}

TEST(Matching, ProgramsCopyByTheStatementsOfTheMemoryAbstraction) {
  const Program program = productInBlocks({17, 3, 20});
  std::vector<std::string> steps;
  for (int64_t unit = 0; unit < tasksOf(program); ++unit) {
    Trace trace(program, 1000);
    ASSERT_TRUE(walk(program, unit, trace).ok());
    steps.insert(steps.end(), trace.steps().begin(), trace.steps().end());
  }
  ASSERT_EQ(steps.size(), 26u);
  steps.resize(13);  // those of the first row of blocks
  EXPECT_EQ(absl::StrJoin(steps, "\n"),
            "fill L0C.c, 256 elements\n"
            "copy HBM.A -> L1.a, 256 elements\n"
            "copy L1.a -> L0A.a, 256 elements\n"
            "copy HBM.B -> L1.b, 256 elements, 208 padded\n"
            "copy L1.b -> L0B.b, 256 elements\n"
            "call cube.f16\n"
            "copy HBM.A -> L1.a, 256 elements, 192 padded\n"
            "copy L1.a -> L0A.a, 256 elements\n"
            "copy HBM.B -> L1.b, 256 elements, 244 padded\n"
            "copy L1.b -> L0B.b, 256 elements\n"
            "call cube.f16\n"
            "copy L0C.c -> UB.c, 256 elements\n"
            "copy UB.c -> HBM.O, 256 elements, 208 padded");
  EXPECT_TRUE(check(program, 1, 1 << 20)->right());
}

TEST(Matching, ALongProgramIsAShortValue) {
  const Program program = productInBlocks({4096, 4096, 4096});
  EXPECT_LE(program.steps.size(), 8u);
  EXPECT_EQ(check(program, 1, 1).status().code(), absl::StatusCode::kResourceExhausted);
  Trace begun(program, 4);
  EXPECT_EQ(walk(program, 0, begun).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(begun.steps().size(), 4u);
}

}  // namespace
}  // namespace tessera::compiler::simulator
