// SPDX-License-Identifier: Apache-2.0
// Every rule of the hardware: a program that breaks it, and what becomes of
// it. That rewrites compute the same is sim_hardware_test's.
#include "ir/hardware.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/print.h"
#include "ir_hardware_cases.h"
#include "ir_programs.h"

namespace neuronx::ir::hardware {
namespace {

using testing::ValuesIn;

std::set<std::string> broken(const Program& program, const Target& target) {
  std::set<std::string> names;
  for (const Violation& violation : violations(program, target))
    names.emplace(violation.rule->name);
  return names;
}

const Target kTrn2{.chip = Chip::Trn2};
const Target kTrn3{.chip = Chip::Trn3};
const Target kNarrow{.native_int64 = false};

class RewrittenRule : public testing::TestWithParam<Rewritten> {};

TEST_P(RewrittenRule, IsKeptByTheLegalProgram) {
  const Program program = GetParam().program();
  for (const Target& target : {kTrn2, kTrn3}) {
    EXPECT_TRUE(broken(program, target).contains(GetParam().rule));
    Report report;
    const Program legal = legalize(program, target, &report);
    EXPECT_EQ(broken(legal, target), std::set<std::string>{});
    EXPECT_GE(report.rewrites, 1);
    const std::string text = to_stablehlo(legal);
    EXPECT_NE(text.find(GetParam().becomes), std::string::npos) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(AllRules, RewrittenRule, ValuesIn(rewritten_cases()));

// A program of one operation, which type inference need not know.
Program single(Operation op,
               const std::vector<TensorType>& operands,
               const std::vector<TensorType>& results) {
  Program program;
  for (const TensorType& type : operands) {
    op.operands.push_back({int32_t(program.types.size())});
    program.types.push_back(type);
  }
  program.parameters = op.operands;
  for (const TensorType& type : results) {
    op.results.push_back({int32_t(program.types.size())});
    program.types.push_back(type);
  }
  program.results = op.results;
  program.operations.push_back(std::move(op));
  return program;
}

Program unary(const std::string& name, DType dtype) {
  Builder b;
  const Value x = b.parameter({dtype, {2}});
  return b.finish({b.unary(name, x)});
}

Program int64_of(int64_t value) {
  Builder b;
  const Value x = b.parameter({DType::Int64, {2}});
  return b.finish({b.add(x, b.constant(DType::Int64, value, {2}))});
}

struct Refused {
  std::string rule;
  std::function<Program()> program;
  std::string text;  // part of the error
  Target target = {};
};

std::ostream& operator<<(std::ostream& out, const Refused& c) {
  return out << c.rule;
}

const TensorType kFloats{DType::Float32, {4}};
const TensorType kInts{DType::Int32, {4}};
// 4 GiB.
const TensorType kHuge{DType::Float32, {1 << 15, 1 << 15}};

std::vector<Refused> refused_cases() {
  return {
      {"static-shapes",
       [] {
         return single({.name = "stablehlo.dynamic_reshape"},
                       {kFloats, kInts},
                       {kFloats});
       },
       "stablehlo.dynamic_reshape (float32[4], int32[4] -> float32[4]): the "
       "compiler does not take sizes that depend on data"},
      {"operator",
       [] {
         return single(
             {.name = "stablehlo.triangular_solve"}, {kFloats}, {kFloats});
       },
       "solve on the CPU"},
      {"random-algorithm",
       [] {
         return single(
             {.name = "stablehlo.rng_bit_generator",
              .attributes = {{"rng_algorithm", std::string("THREE_FRY")}}},
             {kInts},
             {kInts, kInts});
       },
       "neuronx.philox"},
      {"complex",
       [] { return unary("exponential", DType::Complex64); },
       "complex64 that is only moved becomes uint64"},
      {"float64",
       [] { return unary("exponential", DType::Float64); },
       "compute in float32 or on the CPU"},
      {"float8-e4m3fn",
       [] {
         Builder b;
         const Value x = b.parameter({DType::Float8E4M3FN, {2}});
         return b.finish({b.convert(x, DType::Float32)});
       },
       "float8_e4m3fn on trn2"},
      {"integer-convolution",
       [] {
         Builder b;
         const Value x = b.parameter({DType::Int32, {2, 3, 5, 4}});
         const Value kernel = b.parameter({DType::Int32, {4, 3, 2, 2}});
         return b.finish({b.convolution(
             x, kernel, convolution_dimensions(), DType::Int32)});
       },
       "Convolve in float32"},
      {"window-base-dilation",
       [] {
         Builder b;
         const Value x = b.parameter(kFloats);
         const Value y = b.reduce_window(x,
                                         b.constant(DType::Float32, 0),
                                         {.size = {2},
                                          .stride = {1},
                                          .dilation = {1},
                                          .pad_low = {0},
                                          .pad_high = {0}},
                                         Reduce::Add);
         Program program = b.finish({y});
         program.operations.back().attributes.emplace_back("base_dilations",
                                                           Shape{2});
         return program;
       },
       "interior padding"},
      {"scatter-bounds",
       [] {
         Builder b;
         const Value x = b.parameter({DType::Float32, {3, 4}});
         const Value updates = b.parameter({DType::Float32, {10, 4}});
         const Value index = b.iota({DType::Int32, {10, 1}}, 0);
         return b.finish({b.scatter(x,
                                    index,
                                    updates,
                                    {.update_window = {1},
                                     .inserted_window = {0},
                                     .scatter_to_operand = {0},
                                     .index_vector = 1},
                                    combine("add"))});
       },
       "Slice the updates"},
      {"custom-call",
       [] {
         Builder b;
         const Value x = b.parameter(kFloats);
         return b.finish(b.custom_call("AwsNeuronSwiglu", {x}, {kFloats}));
       },
       "a name of its list"},
      {"topk-integers",
       [] {
         Builder b;
         const Value x = b.parameter(kInts);
         return b.finish(
             b.custom_call("AwsNeuronTopK", {x}, {kInts, kInts}, "4"));
       },
       "NCC_EVRF013"},
      {"collective-integers",
       [] {
         return single({.name = "stablehlo.all_reduce"}, {kInts}, {kInts});
       },
       "stablehlo.all_reduce (int32[4] -> int32[4])"},
      {"collective-size",
       [] {
         return single({.name = "stablehlo.all_gather"}, {kFloats}, {kHuge});
       },
       "Communicate in several parts"},
      {"communicators",
       [] {
         Program program;
         program.types = {kFloats};
         program.parameters = program.results = {Value{0}};
         for (int64_t i = 0; i < 17; ++i) {
           const Value last = program.results[0];
           program.results = {Value{int32_t(program.types.size())}};
           program.types.push_back(kFloats);
           program.operations.push_back(
               {.name = "stablehlo.all_reduce",
                .operands = {last},
                .results = program.results,
                .attributes = {{"replica_groups", Shape{i, i + 1}}}});
         }
         return program;
       },
       ""},
      {"output-size",
       [] {
         Builder b;
         const Value x = b.parameter(kFloats);
         return b.finish({b.broadcast(x, {(1 << 28) + 1, 4})});
       },
       "module (float32[4] -> float32[268435457, 4])"},
      {"device-memory",
       [] {
         Builder b;
         Values xs;
         for (int i = 0; i < 10; ++i)
           xs.push_back(b.parameter(kHuge));
         return b.finish({b.slice(xs[0], {0, 0}, {1, 1}, {1, 1})});
       },
       "more than a logical core's memory"},
      {"int64-constant",
       [] { return int64_of(int64_t(1) << 40); },
       "it holds 1099511627776",
       kNarrow},
      {"int64-iota",
       [] {
         Builder b;
         const Value x = b.iota({DType::Int64, {(int64_t(1) << 31) + 1}}, 0);
         return b.finish({b.slice(x, {0}, {4}, {1})});
       },
       "it counts to 2147483648",
       kNarrow},
      {"int64-index",
       [] {
         Builder b;
         const Value x = b.parameter({DType::Bool, {int64_t(1) << 32}});
         const Value start = b.parameter({DType::Int64, {}});
         return b.finish({b.dynamic_slice(x, {start}, {4})});
       },
       "a dimension has 4294967296 elements",
       kNarrow},
      {"int64-width",
       [] { return unary("count_leading_zeros", DType::Int64); },
       "its result depends on all 64 bits",
       kNarrow},
  };
}

class RefusedRule : public testing::TestWithParam<Refused> {};

TEST_P(RefusedRule, IsNamedInTheError) {
  const Refused& c = GetParam();
  const Program program = c.program();
  const std::string narrowed = c.target.native_int64 ? c.rule : "int64";
  EXPECT_TRUE(broken(program, c.target).contains(narrowed));
  try {
    legalize(program, c.target);
    FAIL() << "the program is taken";
  } catch (const Illegal& error) {
    const std::string text = error.what();
    // More than 16 groups are seen after the operation itself.
    if (c.rule != "communicators") {
      EXPECT_EQ(error.rule->name, c.rule);
    }
    EXPECT_NE(text.find(c.text), std::string::npos) << text;
  } catch (const std::invalid_argument& error) {
    // Collectives are no operations of the IR yet.
    EXPECT_EQ(c.rule, "communicators") << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(AllRules, RefusedRule, ValuesIn(refused_cases()));

TEST(Rules, EachHasACase) {
  std::set<std::string> tested{"int64"};  // Narrowing, below
  for (const Rewritten& c : rewritten_cases())
    tested.insert(c.rule);
  for (const Refused& c : refused_cases())
    tested.insert(c.rule);
  std::set<std::string> names;
  for (const Rule& rule : rules())
    names.emplace(rule.name);
  EXPECT_EQ(names, tested);
}

TEST(Rules, AreOfATarget) {
  Builder b;
  const Value x = b.parameter({DType::Float8E4M3FN, {2}});
  const Program program = b.finish({b.convert(x, DType::Float32)});
  EXPECT_EQ(broken(program, kTrn2), std::set<std::string>{"float8-e4m3fn"});
  EXPECT_EQ(broken(program, kTrn3), std::set<std::string>{});
}

TEST(Rules, MemoryIsThatOfTheChip) {
  Builder b;
  for (int i = 0; i < 7; ++i)
    b.parameter(kHuge);  // 28 GiB
  const Program program = b.finish({b.parameter(kFloats)});
  EXPECT_EQ(broken(program, kTrn2), std::set<std::string>{"device-memory"});
  EXPECT_EQ(broken(program, kTrn3), std::set<std::string>{});
}

TEST(Rules, LookIntoRegionsAndComposites) {
  Builder b;
  const TensorType type{DType::Int64, {}};
  const Value x = b.parameter(type), y = b.parameter(type);
  const Values looped = b.while_loop(
      {x, y},
      [](Builder& r, const Values& v) -> Values {
        return {r.compare(Compare::LT, v[0], v[1])};
      },
      [](Builder& r, const Values& v) -> Values {
        return {r.binary("power", v[0], v[1]), v[1]};
      });
  const Program body = build_region(
      [](Builder& r, const Values& v) -> Values {
        return {r.binary("shift_right_arithmetic", v[0], v[0])};
      },
      {type});
  const Program program =
      b.finish(b.composite("custom.op", {looped[0]}, {Operand{0}}, body));
  EXPECT_EQ(broken(program, kTrn2),
            (std::set<std::string>{"int64-power", "arithmetic-shift"}));
  EXPECT_EQ(broken(legalize(program, kTrn2), kTrn2), std::set<std::string>{});
}

TEST(Rules, LegalProgramsStayAsTheyAre) {
  Report report;
  const Program legal = legalize(softmax_program(), kTrn2, &report);
  EXPECT_EQ(to_stablehlo(legal), to_stablehlo(softmax_program()));
  EXPECT_EQ(report.rewrites, 0);
}

TEST(Rules, AliasesAreKept) {
  const Program program = mixed_program();
  EXPECT_EQ(legalize(program, kTrn2).aliases, program.aliases);
}

TEST(Scatter, OtherRegionsAreNotRewritten) {
  Builder b;
  const Value x = b.parameter({DType::Int32, {5}});
  const Value index = b.parameter({DType::Int32, {3, 1}});
  const Value updates = b.parameter({DType::Int32, {3}});
  const Program program = b.finish({b.scatter(
      x,
      index,
      updates,
      {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector = 1},
      combine("multiply"))});
  try {
    legalize(program, kTrn2);
    FAIL() << "the program is taken";
  } catch (const Illegal& error) {
    EXPECT_STREQ(
        error.what(),
        "[integer-scatter, NCC_EVRF016, NCC_EVRF060] stablehlo.scatter "
        "(int32[5], int32[3, 1], int32[3] -> int32[5]): the compiler does not "
        "take scatters that combine integers or bools, and this one is not "
        "rewritten because its region combines with stablehlo.multiply, not "
        "with add, maximum or minimum.");
  }
}

TEST(Scatter, ThatOverwritesIntegersIsTaken) {
  Builder b;
  const Value x = b.parameter({DType::Int32, {5}});
  const Value index = b.parameter({DType::Int32, {3, 1}});
  const Value updates = b.parameter({DType::Int32, {3}});
  const Program program = b.finish({b.scatter(
      x,
      index,
      updates,
      {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector = 1},
      [](Builder&, const Values& v) -> Values { return {v[1]}; })});
  EXPECT_EQ(broken(program, kTrn2), std::set<std::string>{});
}

// Only moved: reshaped, padded, gathered and scattered.
Program moving(DType dtype) {
  Builder b;
  const Value x = b.parameter({dtype, {2, 3}});
  const Value flat = b.reshape(x, {6});
  const Value padded = b.pad(flat, b.constant(dtype, 0), {1}, {2}, {0});
  const Value index = b.parameter({DType::Int32, {4, 1}});
  const Value picked = b.gather(padded,
                                index,
                                {.collapsed = {0},
                                 .start_index_map = {0},
                                 .index_vector = 1,
                                 .slice_sizes = {1}});
  return b.finish({b.scatter(
      padded,
      index,
      picked,
      {.inserted_window = {0}, .scatter_to_operand = {0}, .index_vector = 1},
      [](Builder&, const Values& v) -> Values { return {v[1]}; })});
}

TEST(Moved, WideNumbersBecomeIntegers) {
  for (DType dtype : {DType::Float64, DType::Complex64}) {
    const Program legal = legalize(moving(dtype), kTrn2);
    EXPECT_EQ(legal.type(legal.parameters[0]),
              (TensorType{DType::UInt64, {2, 3}}));
    EXPECT_EQ(broken(legal, kTrn2), std::set<std::string>{});
  }
  EXPECT_THROW(legalize(moving(DType::Complex128), kTrn2), Illegal);
  EXPECT_THROW(legalize(moving(DType::Float64), kNarrow), Illegal);
}

TEST(Moved, Float8BecomesBytesWhereTheChipLacksIt) {
  const Program program = moving(DType::Float8E4M3FN);
  const auto parameter = [&](const Target& target) {
    const Program legal = legalize(program, target);
    return legal.type(legal.parameters[0]).dtype;
  };
  EXPECT_EQ(parameter(kTrn2), DType::UInt8);
  EXPECT_EQ(parameter(kTrn3), DType::Float8E4M3FN);
}

TEST(Narrowing, CountsWhatDependsOnTheData) {
  Builder b;
  const TensorType type{DType::Int64, {5}};
  const Value x = b.parameter(type);
  // Provably small: an index of 5 times 3.
  const Value small = b.mul(b.iota(type, 0), b.constant(DType::Int64, 3, {5}));
  const Program program = b.finish({small, b.add(x, small)});
  EXPECT_EQ(broken(program, kNarrow), std::set<std::string>{"int64"});
  Report report;
  const Program legal = legalize(program, kNarrow, &report);
  EXPECT_EQ(broken(legal, kNarrow), std::set<std::string>{});
  EXPECT_EQ(report.narrowed, 2);  // the parameter and the sum
}

TEST(Narrowing, LimitsStayLimitsInReductions) {
  Builder b;
  const Value x = b.parameter({DType::Int64, {5}});
  const Program legal =
      legalize(b.finish({b.reduce(x, Reduce::Max, {0})}), kNarrow);
  EXPECT_NE(to_stablehlo(legal).find("dense<-2147483648> : tensor<i32>"),
            std::string::npos);
  EXPECT_THROW(legalize(int64_of(INT64_MIN), kNarrow), Illegal);
}

// A composite with an empty decomposition: zeros.
Program call(const std::string& name,
             const std::vector<Attribute>& arguments,
             const std::vector<TensorType>& operands,
             const std::vector<TensorType>& results) {
  const Program body = build_region(
      [&](Builder& r, const Values&) -> Values {
        Values zeros;
        for (const TensorType& type : results)
          zeros.push_back(r.constant(type.dtype, 0, type.shape));
        return zeros;
      },
      operands);
  Builder b;
  Values values;
  for (const TensorType& type : operands)
    values.push_back(b.parameter(type));
  return b.finish(b.composite(name, values, arguments, body));
}

struct Called {
  std::string target;
  Program program;
  std::string text;  // of the call, as StableHLO
};

TEST(CustomCalls, ReplaceComposites) {
  const TensorType x{DType::Float32, {2, 8}}, w{DType::Float32, {8}};
  const TensorType index{DType::Int64, {2}}, top{DType::Float32, {2, 3}},
      where{DType::Int64, {2, 3}}, rstd{DType::Float32, {2, 1}};
  const std::string config = "backend_config = ";
  const std::vector<Called> cases{
      {"AwsNeuronGelu",
       call("aten.gelu", {Operand{0}, std::string("none")}, {x}, {x}),
       config + "\"\""},
      {"AwsNeuronGeluApprxTanh",
       call("aten.gelu", {Operand{0}, std::string("tanh")}, {x}, {x}),
       config + "\"\""},
      {"AwsNeuronSilu",
       call("aten.silu", {Operand{0}}, {x}, {x}),
       config + "\"\""},
      {"AwsNeuronSoftmax",
       call("aten._softmax", {Operand{0}, int64_t(-1), false}, {x}, {x}),
       config + "\"1\""},
      {"AwsNeuronArgMax",
       call("aten.argmax", {Operand{0}, int64_t(1), false}, {x}, {index}),
       config + "\"1\""},
      {"AwsNeuronArgMin",
       call("aten.argmin", {Operand{0}, int64_t(1), false}, {x}, {index}),
       "-> (tensor<2xui32>)"},
      {"AwsNeuronTopK",
       call("aten.topk",
            {Operand{0}, int64_t(3), int64_t(-1), true, true},
            {x},
            {top, where}),
       config + "\"3\""},
      {"AwsNeuronRmsNorm",
       call("aten._fused_rms_norm",
            {Operand{0}, Shape{8}, Operand{1}, 1e-6},
            {x, w},
            {x, rstd}),
       "tensor<f32>) -> (tensor<2x8xf32>)"},
  };
  std::set<std::string> tested;
  for (const Called& c : cases) {
    tested.insert(c.target);
    Report report;
    const Program legal =
        legalize(c.program, {.custom_calls = {c.target}}, &report);
    const std::string text = to_stablehlo(legal);
    EXPECT_NE(text.find("call_target_name = \"" + c.target + "\""),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(c.text), std::string::npos) << text;
    EXPECT_EQ(report.custom_calls, 1);
    EXPECT_EQ(broken(legal, kTrn2), std::set<std::string>{});
    // Without the name, the decomposition.
    EXPECT_EQ(to_stablehlo(legalize(c.program, kTrn2)).find("custom_call"),
              std::string::npos);
  }
  const auto names = custom_call_names();
  EXPECT_EQ(tested, std::set<std::string>(names.begin(), names.end()));
}

TEST(CustomCalls, LeaveFormsThatTheyLack) {
  const Target all{.custom_calls = custom_call_names()};
  const TensorType ints{DType::Int32, {2, 8}}, x{DType::Float32, {2, 8}};
  const TensorType top{DType::Int32, {2, 3}}, where{DType::Int64, {2, 3}};
  const TensorType whole{DType::Int64, {}};
  for (const Program& program :
       {call("aten.topk",
             {Operand{0}, int64_t(3), int64_t(-1), true, true},
             {ints},
             {top, where}),
        call("aten.topk",
             {Operand{0}, int64_t(3), int64_t(0), true, true},
             {{DType::Float32, {8, 2}}},
             {{DType::Float32, {3, 2}}, {DType::Int64, {3, 2}}}),
        call("aten.argmax", {Operand{0}, {}, false}, {x}, {whole}),
        call("aten._softmax",
             {Operand{0}, int64_t(-1), true},
             {{DType::Float16, {2, 8}}},
             {x})})
    EXPECT_EQ(to_stablehlo(legalize(program, all)).find("custom_call"),
              std::string::npos);
}

TEST(CustomCalls, AreChosenByName) {
  EXPECT_EQ(parse_custom_calls("0"), std::vector<std::string>{});
  EXPECT_EQ(parse_custom_calls(""), std::vector<std::string>{});
  EXPECT_EQ(parse_custom_calls("1"), custom_call_names());
  EXPECT_EQ(parse_custom_calls("AwsNeuronSilu,AwsNeuronTopK"),
            (std::vector<std::string>{"AwsNeuronSilu", "AwsNeuronTopK"}));
  EXPECT_THROW(parse_custom_calls("AwsNeuronSwiglu"), std::invalid_argument);
}

TEST(Target, IsTrn2OrTrn3) {
  EXPECT_EQ(chip("trn2"), Chip::Trn2);
  EXPECT_EQ(name(chip("trn3")), "trn3");
  EXPECT_THROW(chip("trn1"), std::invalid_argument);
}

}  // namespace
}  // namespace neuronx::ir::hardware
