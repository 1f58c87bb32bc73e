// SPDX-License-Identifier: Apache-2.0
// https://awsdocs-neuron.readthedocs-hosted.com/en/latest/compiler/error-codes
#include "compiler/error_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace neuronx::compiler {
namespace {

constexpr std::string_view kSmaller =
    "compile in smaller pieces (torch.compile of one block instead of the "
    "model), shard over more cores, or reduce batch or sequence length";
constexpr std::string_view kLessMemory =
    "shard over more cores, checkpoint activations, or reduce batch or "
    "sequence length";
constexpr std::string_view kOurs =
    "the backend avoids this form: report the program "
    "(torch_neuronx.program) with the line that calls it";
constexpr std::string_view kFloat =
    "compute in float32, which is exact below 2^24, or on the CPU";
constexpr std::string_view kScaled =
    "follow the operand rules of block-scaled products, or multiply in "
    "bfloat16";
constexpr std::string_view kQuantized =
    "use blocks of 32 along a dimension divisible by 4, or quantise on the "
    "CPU";

constexpr ErrorCode kCodes[] = {
    {"EARG001",
     "the target does not have this logical core configuration",
     "set NEURON_LOGICAL_NC_CONFIG to 1 or 2 as the target allows, and keep "
     "--lnc out of NEURON_CC_FLAGS"},
    {"EARG002",
     "an argument that this compiler does not know",
     "look at NEURON_CC_FLAGS; flags of the XLA line such as --cache_dir are "
     "none of the compiler's; a compiler older than 2.27.5334 needs "
     "TORCH_NEURONX_NATIVE_INT64=0"},
    {"EBIR023",
     "the fused MLP kernel is wider than 4096",
     "split the layer, or shard it over more cores"},
    {"EBVF030", "the program has too many instructions", kSmaller},
    {"EHCA005",
     "a custom call by a name that this compiler does not know",
     "set TORCH_NEURONX_CUSTOM_CALLS=0, or install a newer neuronx-cc"},
    {"EMOD025", "a size that depends on data", kOurs},
    {"EOOM001",
     "the program needs more memory than a logical core has",
     kLessMemory},
    {"EOOM002",
     "the program needs more memory than a logical core has",
     kLessMemory},
    {"ESFH002", "an unsigned 64-bit constant that needs over 32 bits", kOurs},
    {"ESPP004",
     "a dtype that the target does not have",
     "convert to float32, bfloat16 or float16 before the operator"},
    {"ESPP047",
     "a kind of float8 that the target does not have",
     "use float8_e5m2, on trn3 also float8_e4m3fn, or bfloat16"},
    {"EUOC002", "an operator that the compiler does not implement", kOurs},
    {"EVRF001", "an operator that the compiler does not implement", kOurs},
    {"EVRF004",
     "complex numbers",
     "compute with real and imaginary part, or on the CPU"},
    {"EVRF005",
     "a kind of float8 that the target does not have",
     "use float8_e5m2, on trn3 also float8_e4m3fn, or bfloat16"},
    {"EVRF006", "a random number algorithm other than the default", kOurs},
    {"EVRF007", "the program has too many instructions", kSmaller},
    {"EVRF009", "activations need more memory than there is", kLessMemory},
    {"EVRF010", "a convolution with input and kernel dilation", kOurs},
    {"EVRF011", "a convolution with stride and input dilation", kOurs},
    {"EVRF013", "top-k of integers", "convert to float32 before topk"},
    {"EVRF015",
     "a custom call by a name that this compiler does not know",
     "set TORCH_NEURONX_CUSTOM_CALLS=0, or install a newer neuronx-cc"},
    {"EVRF016", "a scatter that combines integers or bools", kFloat},
    {"EVRF017", "a reduce-window with base dilation", kOurs},
    {"EVRF018", "a reduce-window with window dilation", kOurs},
    {"EVRF019", "a reduce-window of several inputs", kOurs},
    {"EVRF022", "an arithmetic shift of anything but 32 bits", kOurs},
    {"EVRF024",
     "a result of more than 4 GiB",
     "shard it over several cores, or reduce the batch"},
    {"EVRF029", "a sort", kOurs},
    {"EVRF031",
     "a scatter whose indices leave the operand",
     "look for a position table or cache that is shorter than the sequence"},
    {"EVRF035", "a product of integer matrices", kFloat},
    {"EVRF036", "operands of QuantizeMX", kQuantized},
    {"EVRF037", "operands of QuantizeMX", kQuantized},
    {"EVRF038", "operands of QuantizeMX", kQuantized},
    {"EVRF039", "operands of QuantizeMX", kQuantized},
    {"EVRF040", "operands of QuantizeMX", kQuantized},
    {"EVRF041", "operands of QuantizeMX", kQuantized},
    {"EVRF042", "operands of QuantizeMX", kQuantized},
    {"EVRF043", "operands of a block-scaled product", kScaled},
    {"EVRF044", "operands of a block-scaled product", kScaled},
    {"EVRF045", "operands of a block-scaled product", kScaled},
    {"EVRF046", "operands of a block-scaled product", kScaled},
    {"EVRF047", "operands of a block-scaled product", kScaled},
    {"EVRF048", "operands of a block-scaled product", kScaled},
    {"EVRF049", "operands of a block-scaled product", kScaled},
    {"EVRF050", "operands of a block-scaled product", kScaled},
    {"EVRF051",
     "float8_e4m3fn, which trn2 does not have",
     "use bfloat16 or float8_e5m2, or a trn3"},
    {"EVRF052",
     "float8_e4m3, which targets after trn3 do not have",
     "use float8_e4m3fn"},
    {"EVRF053", "operands of a block-scaled product", kScaled},
    {"EVRF054", "operands of a block-scaled product", kScaled},
    {"EVRF055", "operands of a block-scaled product", kScaled},
    {"EVRF056",
     "a gather whose indices leave the operand",
     "look for a position table or cache that is shorter than the sequence"},
    {"EVRF057", "operands of QuantizeMX", kQuantized},
    {"EVRF058", "operands of QuantizeMX", kQuantized},
    {"EVRF059",
     "the file of an NKI kernel is missing",
     "compile on the host that traced the kernel, or ship its files too"},
    {"EVRF060", "a scatter of integers that float32 would round", kFloat},
    {"EVRF061", "an all-reduce of integers that float32 would round", kFloat},
    {"EVRF062", "a power of 64-bit integers", "use float32, or multiply"},
    {"EVRF063",
     "a reduce-scatter of integers that float32 would round",
     kFloat},
    {"EVRF064", "the program is not valid HLO", kOurs},
    {"EVRF065",
     "an NKI kernel was traced by another version of NKI",
     "install the nki that belongs to this neuronx-cc"},
    {"EXSP001",
     "the program needs more memory than a logical core has",
     kLessMemory},
    {"EXTP004", "the program has too many instructions", kSmaller},
    {"ISMP902",
     "an internal error of the compiler, seen with odd shapes",
     "pad sizes to multiples of 128, or install a newer neuronx-cc"},
    {"ITEN406",
     "an internal error of the compiler, seen with strided operands of many "
     "dimensions",
     "call .contiguous() before the operator, or merge dimensions"},
};

// E or I, three letters, three digits.
bool is_code(std::string_view word) {
  return word.size() == 7 && (word[0] == 'E' || word[0] == 'I') &&
         std::all_of(word.begin() + 1,
                     word.begin() + 4,
                     [](unsigned char c) { return std::isupper(c); }) &&
         std::all_of(word.begin() + 4, word.end(), [](unsigned char c) {
           return std::isdigit(c);
         });
}

const ErrorCode* find(std::string_view code) {
  const auto* found = std::ranges::find(kCodes, code, &ErrorCode::code);
  return found == std::end(kCodes) ? nullptr : found;
}

}  // namespace

std::span<const ErrorCode> error_codes() {
  return kCodes;
}

std::string explain(std::string_view output) {
  std::string lines;
  std::set<std::string_view> told;
  const auto in_word = [](unsigned char c) { return std::isalnum(c); };
  for (size_t begin = 0; begin < output.size();) {
    const auto* first =
        std::find_if(output.begin() + begin, output.end(), in_word);
    const auto* last = std::find_if_not(first, output.end(), in_word);
    const std::string_view word(first, last);
    begin = last - output.begin();
    const bool ours = std::string_view(output.begin(), first).ends_with("NCC_");
    const ErrorCode* known = is_code(word) ? find(word) : nullptr;
    if ((known == nullptr && !(ours && is_code(word))) ||
        !told.insert(word).second) {
      continue;
    }
    lines += known != nullptr
                 ? fmt::format("NCC_{}: {}. What to do: {}.\n",
                               word,
                               known->cause,
                               known->remedy)
                 : fmt::format("NCC_{}: {}\n",
                               word,
                               word[0] == 'I'
                                   ? "an internal error of the compiler; a "
                                     "newer neuronx-cc may not have it."
                                   : "not a documented error; the compiler's "
                                     "own words follow.");
  }
  return lines;
}

bool transient(std::string_view output) {
  for (const std::string_view sign : {"No space left on device",
                                      "Disk quota exceeded",
                                      "File too large",
                                      "MemoryError",
                                      "std::bad_alloc",
                                      "Cannot allocate memory",
                                      "Too many open files",
                                      "Resource temporarily unavailable"}) {
    if (output.find(sign) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace neuronx::compiler
