#include "compiler/verification/plan_run.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler::verification {
namespace {

using interpreter::Array;
using interpreter::Element;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;
using Code = absl::StatusCode;

constexpr Element kI8{Element::Kind::kInteger, 8}, kI64{Element::Kind::kInteger, 64}, kF32{Element::Kind::kF32, 32};

Array integers(Element element, const Shape& shape, std::vector<int64_t> values) {
  Array array = interpreter::makeArray(element, shape);
  array.storage->integer = std::move(values);
  return array;
}
Array count(int64_t value) { return integers(kI64, {}, {value}); }
Array flag(bool value) { return integers(kI8, {}, {value ? 1 : 0}); }

/// Builds a plan piece by piece.
class Written {
 public:
  v1::Plan& plan() { return planned_.plan; }
  const PlannedGraph& planned() const { return planned_; }

  int input(v1::DataType type, const Shape& shape) { return buffer(v1::Buffer::INPUT, inputs_++, type, shape); }
  int output(v1::DataType type, const Shape& shape) {
    const int made = buffer(v1::Buffer::OUTPUT, plan().outputs_size(), type, shape);
    *plan().add_outputs() = plan().buffers(made).spec();
    return made;
  }
  int arena(v1::DataType type, const Shape& shape) {
    const int made = buffer(v1::Buffer::ARENA, 0, type, shape);
    plan().mutable_buffers(made)->set_offset(plan().arena_bytes());
    plan().set_arena_bytes(plan().arena_bytes() + 64 * ((plan().buffers(made).size_bytes() + 63) / 64));
    return made;
  }
  int loopBuffer(int loop, v1::DataType type, const Shape& shape) {
    return buffer(v1::Buffer::LOOP, loop, type, shape);
  }
  int weight(const Array& array, const Shape& shape) {
    const int made = buffer(v1::Buffer::WEIGHT, 0, v1::DATA_TYPE_I64, shape);
    auto bytes = std::make_shared<std::string>(interpreter::toBytes(array));
    planned_.weights.push_back({0, {plan().buffers(made).spec(), *bytes, bytes}});
    return made;
  }
  /// Reads the buffer as an extent, after the outputs.
  void returnExtent(int buffer) { plan().add_runtime_extents()->set_buffer(buffer); }

  void step(const std::string& name, const std::string& ir, const std::vector<int>& operands) {
    v1::Step& step = *plan().add_steps();
    step.set_name(name);
    step.set_workload(plan().workloads_size());
    plan().add_workloads()->set_ir(ir);
    for (int operand : operands) step.add_operands(operand);
  }
  v1::StepLoop& loop(int first, int last, int64_t most) {
    v1::StepLoop& loop = *plan().add_loops();
    loop.set_first_step(first);
    loop.set_last_step(last);
    loop.set_max_iterations(most);
    return loop;
  }

 private:
  int buffer(v1::Buffer::Kind kind, int index, v1::DataType type, const Shape& shape) {
    v1::Buffer& buffer = *plan().add_buffers();
    buffer.set_kind(kind);
    buffer.set_index(index);
    buffer.mutable_spec()->set_dtype(type);
    for (int64_t extent : shape) buffer.mutable_spec()->add_shape(extent);
    const int64_t width = type == v1::DATA_TYPE_I64 ? 8 : type == v1::DATA_TYPE_F32 ? 4 : 1;
    buffer.set_size_bytes(std::accumulate(shape.begin(), shape.end(), width, std::multiplies<>()));
    return plan().buffers_size() - 1;
  }

  PlannedGraph planned_;
  int inputs_ = 0;
};

void carry(v1::StepLoop& loop, int initial, int before, int after, int result, int spare) {
  v1::StepLoop::Carried& carried = *loop.add_carried();
  carried.set_initial(initial);
  carried.set_before(before);
  carried.set_after(after);
  carried.set_result(result);
  carried.set_spare(spare);
}
void scan(v1::StepLoop& loop, int whole, int part, bool written, bool reversed) {
  v1::StepLoop::Scan& scan = *loop.add_scans();
  scan.set_whole(whole);
  scan.set_part(part);
  scan.set_written(written);
  scan.set_reversed(reversed);
}

/// z = x op y on tensors of one shape.
std::string binary(const std::string& op, const Shape& shape, const std::string& element = "i64") {
  const std::string type = absl::StrCat("tensor<", absl::StrJoin(shape, "x"), shape.empty() ? "" : "x", element, ">");
  return absl::StrCat("func.func @w(%x: ", type, ", %y: ", type, ") -> ", type, " {\n%e = tensor.empty() : ", type,
                      "\n%z = linalg.", op, " ins(%x, %y : ", type, ", ", type, ") outs(%e : ", type, ") -> ", type,
                      "\nreturn %z : ", type, "\n}");
}
/// 2 x + iteration.
constexpr char kDouble[] = R"(func.func @w(%x: tensor<3xi64>, %i: tensor<i64>) -> tensor<3xi64> {
  %e = tensor.empty() : tensor<3xi64>
  %z = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> ()>, affine_map<(d) -> (d)>],
                       iterator_types = ["parallel"]}
      ins(%x, %i : tensor<3xi64>, tensor<i64>) outs(%e : tensor<3xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %d = arith.addi %a, %a : i64
    %s = arith.addi %d, %b : i64
    linalg.yield %s : i64
  } -> tensor<3xi64>
  return %z : tensor<3xi64> })";
/// Whether the first element is below 100.
constexpr char kBelow[] = R"(func.func @w(%x: tensor<3xi64>) -> tensor<i8> {
  %zero = arith.constant 0 : index
  %first = tensor.extract %x[%zero] : tensor<3xi64>
  %most = arith.constant 100 : i64
  %less = arith.cmpi slt, %first, %most : i64
  %byte = arith.extui %less : i1 to i8
  %r = tensor.from_elements %byte : tensor<i8>
  return %r : tensor<i8> })";

class PlanRunTest : public ::testing::Test {
 protected:
  PlanRunTest() : context_(mlir::MLIRContext::Threading::DISABLED) {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::tensor::TensorDialect>();
  }
  absl::StatusOr<std::vector<Array>> run(const Written& written, const std::vector<Array>& inputs,
                                         const interpreter::Options& options = {},
                                         const StepObserver& observer = nullptr) {
    return runPlan(context_, written.planned(), inputs, options, observer);
  }
  std::vector<int64_t> integersOf(const Written& written, const std::vector<Array>& inputs) {
    const auto results = run(written, inputs);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<int64_t> values;
    if (!results.ok()) return values;
    for (const Array& result : *results)
      values.insert(values.end(), result.storage->integer.begin(), result.storage->integer.end());
    return values;
  }

  mlir::MLIRContext context_;
};

/// x = 2 x + iteration while its first element is below 100: trip count, condition and x are inputs. Returns x and the
/// number of iterations.
Written doubling(int64_t most, bool with_condition) {
  Written w;
  constexpr auto kType = v1::DATA_TYPE_I64;
  const int trips = w.input(kType, {}), initial_condition = w.input(v1::DATA_TYPE_BOOL, {}), x = w.input(kType, {3});
  const int result = w.output(kType, {3}), spare = w.arena(kType, {3});
  const int iteration = w.arena(kType, {}), executed = w.arena(kType, {}), condition = w.arena(v1::DATA_TYPE_BOOL, {});
  const int before = w.loopBuffer(0, kType, {3}), after = w.loopBuffer(0, kType, {3});
  w.step("double", kDouble, {before, iteration, after});
  if (with_condition) w.step("below", kBelow, {after, condition});
  v1::StepLoop& loop = w.loop(0, with_condition ? 2 : 1, most);
  loop.set_trip_count(trips);
  loop.set_iteration(iteration);
  loop.set_executed(executed);
  if (with_condition) {
    loop.set_initial_condition(initial_condition);
    loop.set_condition(condition);
  }
  carry(loop, x, before, after, result, spare);
  w.returnExtent(executed);
  return w;
}

TEST_F(PlanRunTest, LoopsRunAsOftenAsTheirTripCountAndBoundAllow) {
  const Array x = integers(kI64, {3}, {1, 2, 3});
  for (const int64_t most : {5, 0}) {
    const Written w = doubling(most, false);
    EXPECT_THAT(integersOf(w, {count(-2), flag(true), x}), ElementsAre(1, 2, 3, 0));
    EXPECT_THAT(integersOf(w, {count(0), flag(true), x}), ElementsAre(1, 2, 3, 0));
    EXPECT_THAT(integersOf(w, {count(1), flag(true), x}), ElementsAre(2, 4, 6, 1));
    EXPECT_THAT(integersOf(w, {count(2), flag(true), x}), ElementsAre(5, 9, 13, 2));
    EXPECT_THAT(integersOf(w, {count(5), flag(true), x}), ElementsAre(58, 90, 122, 5));
  }
  EXPECT_THAT(integersOf(doubling(5, false), {count(900), flag(true), x}), ElementsAre(58, 90, 122, 5));
}

TEST_F(PlanRunTest, LoopsRunWhileTheirConditionHolds) {
  const Array x = integers(kI64, {3}, {1, 0, -1});
  // 1, 2, 5, 12, 27, 58, 121: whatever the bound, the value ends where readers expect it.
  for (const int64_t most : {0, 6, 7, 8}) {
    const Written w = doubling(most, true);
    EXPECT_THAT(integersOf(w, {count(900), flag(true), x}), ElementsAre(121, 57, -7, 6)) << most;
    EXPECT_THAT(integersOf(w, {count(4), flag(true), x}), ElementsAre(27, 11, -5, 4)) << most;
    EXPECT_THAT(integersOf(w, {count(4), flag(false), x}), ElementsAre(1, 0, -1, 0)) << most;
  }
}

TEST_F(PlanRunTest, WhereRoundingDecidesHowOftenALoopRunsNothingIsSaid) {
  Array unsure = count(2), doubtful = flag(true), x = integers(kI64, {3}, {1, 0, -1});
  unsure.storage->error = {1};
  doubtful.storage->error = {1};
  const Written w = doubling(7, true);
  EXPECT_EQ(run(w, {unsure, flag(true), x}).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(run(w, {count(2), doubtful, x}).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(run(w, {count(0), doubtful, x}).status().code(), Code::kOk);
  x.storage->error[0] = 30;
  EXPECT_EQ(run(w, {count(2), flag(true), x}).status().code(), Code::kFailedPrecondition);
}

TEST_F(PlanRunTest, LoopsReadAndWritePartsOfAnyBuffer) {
  // stacked[i] = a[most - 1 - i] - w[i], and the same from the end in the arena, which a later step reads.
  constexpr auto kType = v1::DATA_TYPE_I64;
  Written w;
  const int trips = w.input(kType, {}), a = w.input(kType, {4, 3});
  const int stacked = w.output(kType, {4, 3}), sum = w.output(kType, {4, 3}), reversed = w.arena(kType, {4, 3});
  const int weight = w.weight(integers(kI64, {4, 3}, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}), {4, 3});
  std::vector<int> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(w.loopBuffer(0, kType, {3}));
  w.step("sub", binary("sub", {3}), {parts[0], parts[1], parts[2]});
  w.step("add", binary("add", {3}), {parts[0], parts[1], parts[3]});
  w.step("sum", binary("sub", {4, 3}), {stacked, reversed, sum});
  v1::StepLoop& loop = w.loop(0, 2, 4);
  loop.set_trip_count(trips);
  scan(loop, a, parts[0], false, true);
  scan(loop, weight, parts[1], false, false);
  scan(loop, stacked, parts[2], true, false);
  scan(loop, reversed, parts[3], true, true);
  const Array input = integers(kI64, {4, 3}, {1, 2, 3, 10, 20, 30, 100, 200, 300, 1000, 2000, 3000});
  const auto results = run(w, {count(3), input});
  ASSERT_TRUE(results.ok()) << results.status();
  const auto known = [](const Array& array) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < array.elements(); ++i)
      values.push_back(array.storage->error[i] == 0 ? array.storage->integer[i] : -1);
    return values;
  };
  EXPECT_THAT(known((*results)[0]), ElementsAre(999, 1999, 2999, 98, 198, 298, 7, 17, 27, -1, -1, -1))
      << "nothing is known of parts that no iteration wrote";
  // Known where both are known: reversed[1] = 13.., reversed[2] = 102...
  EXPECT_THAT(known((*results)[1]),
              ElementsAre(-1, -1, -1, 98 - 13, 198 - 23, 298 - 33, 7 - 102, 17 - 202, 27 - 302, -1, -1, -1));
  EXPECT_EQ(run(w, {count(0), input}).status().code(), Code::kOk) << "an output of which no part is written";
}

TEST_F(PlanRunTest, LoopsNest) {
  // Nested sums: y[r] = sum of x[r][c] over c, where each row's sum starts from the one before it.
  constexpr auto kType = v1::DATA_TYPE_I64;
  Written w;
  const int x = w.input(kType, {3, 5, 2}), zero = w.input(kType, {2});
  const int y = w.output(kType, {3, 2}), last = w.output(kType, {2});
  const int outer_spare = w.arena(kType, {2}), inner_spare = w.arena(kType, {2});
  const int row = w.loopBuffer(0, kType, {5, 2}), stacked = w.loopBuffer(0, kType, {2});
  const int outer_before = w.loopBuffer(0, kType, {2}), outer_after = w.loopBuffer(0, kType, {2});
  const int element = w.loopBuffer(1, kType, {2});
  const int before = w.loopBuffer(1, kType, {2}), after = w.loopBuffer(1, kType, {2});
  w.step("add", binary("add", {2}), {before, element, after});
  w.step("keep", binary("max", {2}), {outer_after, outer_after, stacked});
  v1::StepLoop& outer = w.loop(0, 2, 3);
  scan(outer, x, row, false, true);
  scan(outer, y, stacked, true, false);
  carry(outer, zero, outer_before, outer_after, last, outer_spare);
  v1::StepLoop& inner = w.loop(0, 1, 5);
  scan(inner, row, element, false, false);
  carry(inner, outer_before, before, after, outer_after, inner_spare);
  std::vector<int64_t> values(30);
  std::iota(values.begin(), values.end(), 0);
  // Rows from the last one on: sums of 20, 22, .. 28 and 21, .. 29; then of 10.. and of 0..
  EXPECT_THAT(integersOf(w, {integers(kI64, {3, 5, 2}, values), integers(kI64, {2}, {0, 0})}),
              ElementsAre(120, 125, 190, 200, 210, 225, 210, 225));
}

TEST_F(PlanRunTest, ErrorEstimatesPassFromIterationToIteration) {
  constexpr auto kType = v1::DATA_TYPE_F32;
  Written w;
  const int x = w.input(kType, {1}), c = w.input(kType, {1});
  const int result = w.output(kType, {1}), spare = w.arena(kType, {1});
  const int before = w.loopBuffer(0, kType, {1}), after = w.loopBuffer(0, kType, {1});
  w.step("mul", binary("mul", {1}, "f32"), {before, c, after});
  carry(w.loop(0, 1, 37), x, before, after, result, spare);
  Array one = interpreter::makeArray(kF32, {1}), factor = one;
  factor = interpreter::makeArray(kF32, {1});
  one.storage->real = {1};
  factor.storage->real = {1.1f};
  const auto results = run(w, {one, factor});
  ASSERT_TRUE(results.ok()) << results.status();
  float native = 1;
  for (int i = 0; i < 37; ++i) native *= 1.1f;
  EXPECT_EQ((*results)[0].storage->real[0], native);
  EXPECT_THAT((*results)[0].storage->error, Each(Gt(native * 1e-7)));
}

TEST_F(PlanRunTest, ObserversSeeWhatALoopLeft) {
  std::vector<std::string> seen;
  const Written w = doubling(5, true);
  ASSERT_TRUE(run(w, {count(3), flag(true), integers(kI64, {3}, {1, 2, 3})}, {},
                  [&](int first, int last, const std::vector<Array>& results) {
                    seen.push_back(
                        absl::StrCat(first, " to ", last, ": ", absl::StrJoin(results[0].storage->integer, " ")));
                  })
                  .ok());
  EXPECT_THAT(seen, ElementsAre("0 to 2: 12 20 28"));
}

TEST_F(PlanRunTest, WorkOfLoopsCountsInEachIteration) {
  const Array x = integers(kI64, {3}, {1, 2, 3});
  const auto spent = [&](int64_t trips) {
    int64_t budget = 1'000'000;
    interpreter::Options options;
    options.budget = &budget;
    EXPECT_TRUE(run(doubling(0, false), {count(trips), flag(true), x}, options).ok());
    return 1'000'000 - budget;
  };
  EXPECT_GT(spent(1), 0);
  EXPECT_EQ(spent(7), 7 * spent(1));
  int64_t budget = 1000;
  interpreter::Options options;
  options.budget = &budget;
  EXPECT_EQ(run(doubling(0, false), {count(int64_t{1} << 60), flag(true), x}, options).status().code(),
            Code::kResourceExhausted);
}

TEST_F(PlanRunTest, FindsWrongLoops) {
  const Array x = integers(kI64, {3}, {1, 2, 3});
  const auto fault = [&](const Written& w) {
    const auto results = run(w, {count(4), flag(true), x});
    return std::string(results.status().message());
  };
  Written w = doubling(5, false);
  w.plan().mutable_loops(0)->set_last_step(2);
  EXPECT_THAT(fault(w), HasSubstr("loop 0 is out of order"));

  w = doubling(5, false);
  w.step("behind", kDouble, {w.plan().loops(0).carried(0).after(), 0, 3});
  EXPECT_THAT(fault(w), HasSubstr("used outside of the loop; in step behind"));

  w = doubling(5, false);
  w.plan().mutable_loops(0)->mutable_carried(0)->set_spare(2);
  EXPECT_THAT(fault(w), HasSubstr("writes to a weight or an input; in step double"));

  w = doubling(5, false);
  w.plan().mutable_loops(0)->mutable_carried(0)->set_before(3);
  EXPECT_THAT(fault(w), HasSubstr("buffer 3 does not belong to loop 0"));

  w = doubling(5, false);
  w.plan().mutable_buffers(w.plan().loops(0).carried(0).before())->set_size_bytes(16);
  EXPECT_THAT(fault(w), HasSubstr("its allocation 24"));

  // Two values in one place: each overwrites one that the other needs.
  w = doubling(5, false);
  const int spare = w.plan().loops(0).carried(0).spare();
  w.plan().mutable_loops(0)->mutable_carried(0)->set_result(spare);
  w.step("result", binary("add", {3}), {spare, spare, 3});
  const auto results = run(w, {count(4), flag(true), x});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT((*results)[0].storage->error, Each(Gt(1e100)));
}

}  // namespace
}  // namespace tessera::compiler::verification
