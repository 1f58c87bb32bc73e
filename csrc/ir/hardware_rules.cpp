// SPDX-License-Identifier: Apache-2.0
// What neuronx-cc refuses, as data. Error codes: AWS Neuron documentation,
// compiler/error-codes; state of SDK 2.33.
#include <algorithm>
#include <array>

#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

constexpr std::string_view kBoth = "trn2, trn3";
constexpr std::string_view kCodes = "compiler error codes";
constexpr int64_t kGiB = int64_t(1) << 30;

template <size_t N>
bool one_of(const std::string& name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool integer_or_bool(const TensorType& type) {
  return is_integral(type.dtype);
}

bool has_integer(const Site& site) {
  return site.touches(is_integral);
}

bool over_one(const Site& site, const char* key) {
  const Attribute* attribute = site.op.attribute(key);
  const Shape* values = attribute ? std::get_if<Shape>(attribute) : nullptr;
  return values && std::any_of(values->begin(), values->end(), [](int64_t v) {
           return v > 1;
         });
}

// Shapes and operators.
bool dynamic(const Site& site) {
  static constexpr std::string_view kDynamic[] = {
      "stablehlo.dynamic_broadcast_in_dim",
      "stablehlo.dynamic_conv",
      "stablehlo.dynamic_gather",
      "stablehlo.dynamic_iota",
      "stablehlo.dynamic_pad",
      "stablehlo.dynamic_reshape",
      "stablehlo.get_dimension_size",
      "stablehlo.real_dynamic_slice",
      "stablehlo.set_dimension_size",
  };
  if (one_of(site.op.name, kDynamic))
    return true;
  for (const auto* values : {&site.op.operands, &site.op.results})
    for (Value v : *values)
      for (int64_t size : site.program.type(v).shape)
        if (size < 0)
          return true;
  return false;
}

bool triangular_solve(const Site& site) {
  return site.is("stablehlo.triangular_solve");
}

bool sort(const Site& site) {
  return site.is("stablehlo.sort");
}

bool random_algorithm(const Site& site) {
  if (!site.is("stablehlo.rng_bit_generator"))
    return false;
  const Attribute* algorithm = site.op.attribute("rng_algorithm");
  return !algorithm || *algorithm != Attribute(std::string("DEFAULT"));
}

// Dtypes.
bool complex(const Site& site) {
  return site.touches(is_complex);
}

bool float64(const Site& site) {
  return site.touches([](DType d) { return d == DType::Float64; });
}

bool float8_e4m3fn(const Site& site) {
  return site.touches([](DType d) { return d == DType::Float8E4M3FN; });
}

bool wide_constant(const Site& site) {
  if (!site.is("stablehlo.constant") || site.out().dtype != DType::UInt64)
    return false;
  const auto& bytes = std::get<std::string>(*site.op.attribute("value"));
  for (size_t i = 0; i < bytes.size(); i += 8)  // little endian
    if (bytes.compare(i + 4, 4, std::string(4, '\0')) != 0)
      return true;
  return false;
}

bool narrow_int64(const Site& site) {
  return !site.target.native_int64 && !site.is("module") &&
         !site.is("stablehlo.convert") && site.touches(is_wide);
}

// Found while 64-bit integers are narrowed, from what is inside the rule
// before.
bool while_narrowing(const Site&) {
  return false;
}

// Arithmetic.
bool integer_dot(const Site& site) {
  return site.is("stablehlo.dot_general") && has_integer(site);
}

bool integer_convolution(const Site& site) {
  return site.is("stablehlo.convolution") && has_integer(site);
}

bool integer_scatter(const Site& site) {
  return site.is("stablehlo.scatter") && integer_or_bool(site.in(0)) &&
         combiner(*site.op.bodies[0]) != "";
}

bool integer_power(const Site& site) {
  return site.is("stablehlo.power") && is_wide(site.out().dtype);
}

bool shift(const Site& site) {
  return site.is("stablehlo.shift_right_arithmetic") &&
         itemsize(site.out().dtype) != 4;
}

// Convolutions and windows.
bool both_dilations(const Site& site) {
  return site.is("stablehlo.convolution") && over_one(site, "lhs_dilation") &&
         over_one(site, "rhs_dilation");
}

bool strided_dilation(const Site& site) {
  return site.is("stablehlo.convolution") && over_one(site, "lhs_dilation") &&
         over_one(site, "window_strides");
}

bool base_dilation(const Site& site) {
  return site.is("stablehlo.reduce_window") && over_one(site, "base_dilations");
}

bool window_dilation(const Site& site) {
  return site.is("stablehlo.reduce_window") &&
         over_one(site, "window_dilations");
}

bool window_operands(const Site& site) {
  return site.is("stablehlo.reduce_window") && site.op.operands.size() != 2;
}

// Indices.
bool gather_outside(const Site& site) {
  return site.is("stablehlo.gather") && reaches_outside(site);
}

bool scatter_outside(const Site& site) {
  return site.is("stablehlo.scatter") && reaches_outside(site);
}

// Custom calls.
std::string call_target(const Site& site) {
  const Attribute* name = site.op.attribute("call_target_name");
  const auto* text = name ? std::get_if<std::string>(name) : nullptr;
  return text ? *text : "";
}

bool unknown_call(const Site& site) {
  return site.is("stablehlo.custom_call") &&
         !is_known_custom_call(call_target(site));
}

bool integer_topk(const Site& site) {
  return site.is("stablehlo.custom_call") &&
         call_target(site) == "AwsNeuronTopK" && integer_or_bool(site.in(0));
}

// Collectives.
bool is_collective(const Operation& op) {
  static constexpr std::string_view kCollectives[] = {
      "stablehlo.all_gather",
      "stablehlo.all_reduce",
      "stablehlo.all_to_all",
      "stablehlo.collective_broadcast",
      "stablehlo.collective_permute",
      "stablehlo.reduce_scatter",
  };
  return one_of(op.name, kCollectives);
}

bool integer_collective(const Site& site) {
  if (!site.is("stablehlo.all_reduce") && !site.is("stablehlo.reduce_scatter"))
    return false;
  return std::any_of(
      site.op.operands.begin(), site.op.operands.end(), [&](Value v) {
        const DType dtype = site.program.type(v).dtype;
        return is_integral(dtype) && itemsize(dtype) >= 4;
      });
}

bool large_collective(const Site& site) {
  if (!is_collective(site.op))
    return false;
  for (const auto* values : {&site.op.operands, &site.op.results})
    for (Value v : *values)
      if (site.program.type(v).bytes() >= 4 * kGiB)
        return true;
  return false;
}

bool many_communicators(const Site& site) {
  if (!site.is("module"))
    return false;
  std::vector<const Attribute*> groups;
  for (const Operation& op : site.program.operations) {
    const Attribute* own = op.attribute("replica_groups");
    if (is_collective(op) && own &&
        std::none_of(groups.begin(), groups.end(), [&](const Attribute* g) {
          return *g == *own;
        }))
      groups.push_back(own);
  }
  return groups.size() > 16;
}

// Memory.
bool large_output(const Site& site) {
  return site.is("module") &&
         std::any_of(
             site.op.operands.begin(), site.op.operands.end(), [&](Value v) {
               return site.program.type(v).bytes() > 4 * kGiB;
             });
}

bool large_program(const Site& site) {
  if (!site.is("module"))
    return false;
  Wide bytes = 0;
  for (Value v : site.op.results)
    bytes += site.program.type(v).bytes();
  for (size_t i = 0; i < site.op.operands.size(); ++i)
    if (i >= site.program.aliases.size() || site.program.aliases[i] < 0)
      bytes += site.program.type(site.op.operands[i]).bytes();
  return bytes > Wide(site.target.chip == Chip::Trn2 ? 24 : 36) * kGiB;
}

constexpr Check kChecks[] = {
    {{"static-shapes",
      "NCC_EMOD025",
      kCodes,
      kBoth,
      "sizes that depend on data",
      "A Program has static sizes; pad to the largest",
      false},
     dynamic},
    {{"operator",
      "NCC_EVRF001, NCC_EUOC002",
      kCodes,
      kBoth,
      "triangular_solve",
      "Multiply with the inverse, or solve on the CPU",
      false},
     triangular_solve},
    {{"sort",
      "NCC_EVRF029",
      "the compiler's message: 'Operation sort is not supported on trn2'",
      kBoth,
      "sort",
      "A bitonic network of compare and select, stable",
      true},
     sort,
     rewrite_sort},
    {{"random-algorithm",
      "NCC_EVRF006",
      kCodes,
      kBoth,
      "rng_bit_generator with an algorithm other than DEFAULT",
      "Use neuronx.philox, which is integer arithmetic",
      false},
     random_algorithm},
    {{"complex",
      "NCC_EVRF004",
      kCodes,
      kBoth,
      "complex numbers",
      "complex64 that is only moved becomes uint64; compute others on the CPU "
      "or as real and imaginary part",
      false},
     complex},
    {{"float64",
      "NCC_ESPP004",
      "data types of the NeuronCores",
      kBoth,
      "float64",
      "float64 that is only moved becomes uint64; compute in float32 or on the "
      "CPU",
      false},
     float64},
    {{"float8-e4m3fn",
      "NCC_EVRF051, NCC_ESPP047",
      kCodes,
      "trn2",
      "float8_e4m3fn",
      "float8_e4m3fn that is only moved becomes uint8; compute in bfloat16 or "
      "float8_e5m2, or use trn3",
      false},
     float8_e4m3fn},
    {{"uint64-constant",
      "NCC_ESFH002",
      kCodes,
      kBoth,
      "uint64 constants of more than 32 bits",
      "Two uint32 constants, shifted and added",
      true},
     wide_constant,
     rewrite_constant},
    {{"integer-dot",
      "NCC_EVRF035",
      kCodes,
      kBoth,
      "dot products of integers",
      "8-bit limbs are multiplied in float32, 256 deep, which is exact, and "
      "added as integers",
      true},
     integer_dot,
     rewrite_dot},
    {{"integer-convolution",
      "NCC_EVRF035",
      "compiler error codes, by analogy: the engine is the same",
      kBoth,
      "convolutions of integers",
      "Convolve in float32, which is exact below 2^24",
      false},
     integer_convolution},
    {{"integer-scatter",
      "NCC_EVRF016, NCC_EVRF060",
      kCodes,
      kBoth,
      "scatters that combine integers or bools",
      "Limbs are scattered in float32, where their sums, maxima and minima are "
      "exact, and put together as integers",
      true},
     integer_scatter,
     rewrite_scatter},
    {{"int64-power",
      "NCC_EVRF062",
      kCodes,
      kBoth,
      "powers of 64-bit integers",
      "Square and multiply",
      true},
     integer_power,
     rewrite_power},
    {{"arithmetic-shift",
      "NCC_EVRF022",
      kCodes,
      kBoth,
      "arithmetic right shifts of anything but 32 bits",
      "8 and 16 bits are shifted in 32, 64 bits by a logical shift",
      true},
     shift,
     rewrite_shift},
    {{"convolution-dilations",
      "NCC_EVRF010",
      kCodes,
      kBoth,
      "convolutions with both input and kernel dilation",
      "The input is dilated by a pad",
      true},
     both_dilations,
     rewrite_dilation},
    {{"convolution-stride",
      "NCC_EVRF011",
      kCodes,
      kBoth,
      "convolutions with both stride and input dilation",
      "The input is dilated by a pad",
      true},
     strided_dilation,
     rewrite_dilation},
    {{"window-base-dilation",
      "NCC_EVRF017",
      kCodes,
      kBoth,
      "reduce_window with base dilation",
      "Pad the input with interior padding",
      false},
     base_dilation},
    {{"window-dilation",
      "NCC_EVRF018",
      kCodes,
      kBoth,
      "reduce_window with window dilation",
      "One slice per position of the window, combined elementwise",
      true},
     window_dilation,
     rewrite_window},
    {{"window-operands",
      "NCC_EVRF019",
      kCodes,
      kBoth,
      "reduce_window of several inputs",
      "One slice per position of the window, combined elementwise",
      true},
     window_operands,
     rewrite_window},
    {{"gather-bounds",
      "NCC_EVRF056",
      kCodes,
      kBoth,
      "gathers at an iota that leaves the operand",
      "The indices are clamped, as gather does",
      true},
     gather_outside,
     rewrite_gather},
    {{"scatter-bounds",
      "NCC_EVRF031",
      kCodes,
      kBoth,
      "scatters at an iota that leaves the operand",
      "Slice the updates to the operand's size",
      false},
     scatter_outside},
    {{"custom-call",
      "NCC_EVRF015, NCC_EHCA005",
      kCodes,
      kBoth,
      "custom calls by a name that it does not know",
      "Use a name of its list",
      false},
     unknown_call},
    {{"topk-integers",
      "NCC_EVRF013",
      kCodes,
      kBoth,
      "AwsNeuronTopK of integers",
      "The decomposition of top-k, a sorting network, takes integers",
      false},
     integer_topk},
    {{"collective-integers",
      "NCC_EVRF061, NCC_EVRF063",
      kCodes,
      kBoth,
      "all_reduce and reduce_scatter of 32 and 64-bit integers",
      "Reduce in float32, which is exact below 2^24, or gather and add",
      false},
     integer_collective},
    {{"collective-size",
      "no code",
      "reports from the field: fails to load",
      kBoth,
      "collectives of 4 GiB and more",
      "Communicate in several parts",
      false},
     large_collective},
    {{"communicators",
      "no code",
      "release notes of SDK 2.32",
      kBoth,
      "more than 16 different replica groups in a program",
      "Split the program",
      false},
     many_communicators},
    {{"output-size",
      "NCC_EVRF024",
      kCodes,
      kBoth,
      "a result of more than 4 GiB",
      "Shard it over several cores, or reduce the batch",
      false},
     large_output},
    {{"device-memory",
      "NCC_EOOM001, NCC_EOOM002",
      "compiler error codes; 24 and 36 GiB per logical core of two",
      kBoth,
      "parameters and results of more than a logical core's memory",
      "Shard the program over several cores, or reduce the batch",
      false},
     large_program},
    {{"int64",
      "no code",
      "--native-int64 of the compiler's command line",
      kBoth,
      "64-bit integers without --native-int64=enabled",
      "Computed in 32 bits; values that may not fit are counted",
      true},
     narrow_int64},
    {{"int64-constant",
      "no code",
      "--native-int64 of the compiler's command line",
      kBoth,
      "constants of more than 32 bits without --native-int64=enabled",
      "Use a compiler with native 64-bit integers (2.27.5334 or later)",
      false},
     while_narrowing},
    {{"int64-iota",
      "no code",
      "--native-int64 of the compiler's command line",
      kBoth,
      "an iota beyond 2^31 without --native-int64=enabled",
      "Use a compiler with native 64-bit integers (2.27.5334 or later)",
      false},
     while_narrowing},
    {{"int64-index",
      "no code",
      "--native-int64 of the compiler's command line",
      kBoth,
      "indices into dimensions beyond 2^31 without --native-int64=enabled",
      "Use a compiler with native 64-bit integers (2.27.5334 or later)",
      false},
     while_narrowing},
    {{"int64-width",
      "no code",
      "--native-int64 of the compiler's command line",
      kBoth,
      "operations on all bits of 64-bit integers without "
      "--native-int64=enabled",
      "Use a compiler with native 64-bit integers (2.27.5334 or later)",
      false},
     while_narrowing},
};

}  // namespace

std::span<const Check> checks() {
  return kChecks;
}

}  // namespace neuronx::ir::hardware
