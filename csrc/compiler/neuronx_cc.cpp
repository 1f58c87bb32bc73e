// SPDX-License-Identifier: Apache-2.0
#include "compiler/neuronx_cc.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "common/env.h"
#include "common/hash.h"
#include "common/log.h"
#include "compiler/error_codes.h"
#include "compiler/neff_cache.h"
#include "compiler/process.h"

namespace neuronx::compiler {
namespace {

constexpr std::chrono::seconds kVersionLimit(120);

std::mutex mutex;
// Leaked, as Python may be gone when the process exits.
auto* converter = new HloConverter;
// By the compiler's version, what it is known to take.
auto* known_inputs = new std::map<std::string, std::string>;

std::string compiler_name() {
  return env::text("TORCH_NEURONX_CC", "neuronx-cc");
}

// The first "2.28.7631.0+a1b2" of a text, or "".
std::string parse_version(const std::string& text) {
  const auto digit = [](unsigned char c) { return std::isdigit(c); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!digit(text[i])) {
      continue;
    }
    size_t end = i;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) ||
            text[end] == '.' || text[end] == '+')) {
      ++end;
    }
    const std::string word = text.substr(i, std::min<size_t>(end - i, 64));
    if (word.find('.') != std::string::npos) {
      return word;
    }
    i = end;
  }
  return "";
}

std::string ask_version(const std::string& program) {
  const WorkDirectory work;
  std::string version;
  try {
    const Exit exit = run({program, "--version"}, work.path, kVersionLimit);
    if (exit.success()) {
      version = parse_version(exit.output);
    }
  } catch (const Cancelled&) {
    throw;
  } catch (const CompileError& error) {
    log::warning(error.what());
  }
  if (version.empty()) {
    version = "unversioned." +
              sha256_hex(read_file(program).value_or("")).substr(0, 16);
  }
  return version;
}

// The last lines of the compiler's output that look like its errors.
std::string excerpt(const std::string& log) {
  std::string errors;
  size_t begin = 0;
  while (begin < log.size()) {
    size_t end = log.find('\n', begin);
    end = end == std::string::npos ? log.size() : end;
    const std::string line = log.substr(begin, end - begin);
    if (line.find("ERROR") != std::string::npos ||
        line.find("NCC_") != std::string::npos ||
        line.find("rror:") != std::string::npos) {
      errors += line + "\n";
    }
    begin = end + 1;
  }
  const std::string& text = errors.empty() ? log : errors;
  return text.substr(text.size() > 4000 ? text.size() - 4000 : 0);
}

std::vector<std::string> arguments(const Compiler& compiler,
                                   const fs::path& input,
                                   const fs::path& output,
                                   const Target& target) {
  std::vector<std::string> result{compiler.program,
                                  "compile",
                                  input.string(),
                                  "--framework",
                                  "XLA",
                                  "--target",
                                  target.chip,
                                  "--lnc",
                                  std::to_string(target.lnc),
                                  "--output",
                                  output.string()};
  // Older compilers do not know the option.
  if (const auto int64 = native_int64(); int64.enabled && !int64.set_by_user) {
    result.insert(result.end(), {"--native-int64", "enabled"});
  }
  for (std::string& flag : user_flags()) {
    result.push_back(std::move(flag));
  }
  return result;
}

// One run of the compiler. `understood` becomes true when the compiler took
// the input's form, whatever it thought of the program.
std::string run_once(const Compiler& compiler,
                     const std::string& program,
                     const char* suffix,
                     const Target& target,
                     bool& understood) {
  const WorkDirectory work;
  const fs::path input = work.path / (std::string("program.") + suffix);
  const fs::path output = work.path / "program.neff";
  const auto limit = compile_limit();
  try {
    write_file(input, program);
  } catch (const std::system_error& error) {
    throw CompilerFailed(
        fmt::format("the compiler's input was not written: {}", error.what()),
        false,
        0);
  }
  const Exit exit =
      run(arguments(compiler, input, output, target), work.path, limit);
  if (exit.timed_out) {
    understood = true;
    throw CompilerFailed(
        fmt::format("the compiler did not finish within {} s and was stopped; "
                    "raise TORCH_NEURONX_COMPILE_TIMEOUT, or compile in "
                    "smaller pieces",
                    limit.count()),
        true,
        limit.count());
  }
  const std::string reasons = explain(exit.output);
  if (!exit.success()) {
    const bool machine = reasons.empty() && transient(exit.output);
    understood =
        machine || exit.signal != 0 ||
        (!reasons.empty() && reasons.find("EVRF064") == std::string::npos &&
         reasons.find("EARG002") == std::string::npos);
    throw CompilerFailed(
        fmt::format("the compiler {}{}:\n{}{}",
                    exit.signal != 0
                        ? fmt::format("was killed by signal {}", exit.signal)
                        : fmt::format("failed with exit code {}", exit.code),
                    exit.signal == 9
                        ? " (the kernel does so when memory runs out; see "
                          "TORCH_NEURONX_COMPILE_JOBS)"
                        : "",
                    reasons,
                    excerpt(exit.output)),
        exit.signal == 0 && !machine,
        0);
  }
  understood = true;
  std::string neff = read_file(output).value_or("");
  if (!is_neff(neff)) {
    throw CompilerFailed(
        fmt::format("the compiler reported success but wrote no valid NEFF "
                    "({} bytes); the disk of {} may be full:\n{}",
                    neff.size(),
                    work.path.string(),
                    excerpt(exit.output)),
        false,
        0);
  }
  return neff;
}

enum class Input { Auto, Hlo, StableHlo };

Input chosen_input() {
  return env::choice("TORCH_NEURONX_CC_INPUT",
                     Input::Auto,
                     {{"auto", Input::Auto},
                      {"hlo", Input::Hlo},
                      {"stablehlo", Input::StableHlo}});
}

std::optional<std::string> to_hlo(const std::string& stablehlo) {
  HloConverter convert;
  {
    std::lock_guard lock(mutex);
    convert = *converter;
  }
  return convert ? convert(stablehlo) : std::nullopt;
}

}  // namespace

std::optional<Compiler> find_compiler(const fs::path& notes) {
  const std::string program = find_program(compiler_name());
  if (program.empty()) {
    return std::nullopt;
  }
  struct stat status{};
  ::stat(program.c_str(), &status);
  const std::string identity = fmt::format("{}\n{}\n{}.{}\n{}",
                                           program,
                                           status.st_size,
                                           status.st_mtim.tv_sec,
                                           status.st_mtim.tv_nsec,
                                           status.st_ino);
  static auto* versions = new std::map<std::string, std::string>;
  {
    std::lock_guard lock(mutex);
    if (const auto it = versions->find(identity); it != versions->end()) {
      return Compiler{program, it->second};
    }
  }
  const fs::path note =
      notes.empty() ? "" : notes / sha256_hex(identity).substr(0, 32);
  // "version\nend\n": a note that was cut off is none.
  std::string version;
  if (const auto text = read_file(note); text && text->ends_with("\nend\n")) {
    version = text->substr(0, text->find('\n'));
  } else {
    version = ask_version(program);
    try {
      if (!note.empty()) {
        write_atomically(note, version + "\nend\n");
      }
    } catch (const std::system_error&) {
      // Asked again by the next process.
    }
  }
  std::lock_guard lock(mutex);
  return Compiler{program, (*versions)[identity] = version};
}

std::string missing_compiler() {
  return fmt::format(
      "the compiler '{}' cannot be started: there is no such program. Install "
      "neuronx-cc from the Neuron SDK, name it in TORCH_NEURONX_CC, or ship a "
      "cache of compiled programs (torch-neuronx cache pack and unpack).",
      compiler_name());
}

std::vector<std::string> user_flags() {
  const std::string text = env::text("NEURON_CC_FLAGS", "");
  std::vector<std::string> flags;
  std::string word;
  bool open = false;
  char quote = 0;
  const auto end_word = [&] {
    // libneuronxla's own; the compiler refuses them (NCC_EARG002).
    if (open && !word.starts_with("--cache_dir") &&
        word != "--retry_failed_compilation") {
      flags.push_back(word);
    }
    word.clear();
    open = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      open = true;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      end_word();
    } else {
      word += c == '\\' && i + 1 < text.size() ? text[++i] : c;
      open = true;
    }
  }
  if (quote != 0) {
    env::malformed("NEURON_CC_FLAGS", text, "quotes that are closed");
  }
  end_word();
  return flags;
}

NativeInt64 native_int64() {
  static constexpr std::string_view kOption = "--native-int64";
  const auto flags = user_flags();
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].starts_with(kOption)) {
      const std::string mode = flags[i].size() > kOption.size()
                                   ? flags[i].substr(kOption.size() + 1)
                               : i + 1 < flags.size() ? flags[i + 1]
                                                      : "";
      return {mode == "enabled", true};
    }
  }
  return {env::flag("TORCH_NEURONX_NATIVE_INT64", true), false};
}

void set_hlo_converter(HloConverter convert) {
  std::lock_guard lock(mutex);
  *converter = std::move(convert);
}

std::chrono::seconds compile_limit() {
  return std::chrono::seconds(
      env::integer("TORCH_NEURONX_COMPILE_TIMEOUT", 3600, 1, 1 << 30));
}

Compilation run_compiler(const Compiler& compiler,
                         const std::string& stablehlo,
                         const Target& target) {
  const Input chosen = chosen_input();
  std::string known;
  {
    std::lock_guard lock(mutex);
    known = (*known_inputs)[compiler.version];
  }
  const auto attempt = [&](const char* input,
                           const std::string& program,
                           bool& understood) -> Compilation {
    const char* suffix = input == std::string_view("hlo") ? "pb" : "mlir";
    const auto note = [&] {
      if (understood && chosen == Input::Auto) {
        std::lock_guard lock(mutex);
        (*known_inputs)[compiler.version] = input;
      }
    };
    try {
      std::string neff =
          run_once(compiler, program, suffix, target, understood);
      note();
      return {std::move(neff), input};
    } catch (const CompilerFailed&) {
      note();
      throw;
    }
  };
  bool understood = false;
  std::optional<std::string> hlo;
  if (chosen == Input::Hlo || (chosen == Input::Auto && known != "stablehlo")) {
    hlo = to_hlo(stablehlo);
  }
  if (chosen == Input::Hlo && !hlo) {
    throw CompilerFailed(
        "TORCH_NEURONX_CC_INPUT=hlo needs jaxlib: pip install jaxlib",
        false,
        0);
  }
  if (!hlo) {
    return attempt("stablehlo", stablehlo, understood);
  }
  try {
    return attempt("hlo", *hlo, understood);
  } catch (const CompilerFailed&) {
    if (understood || known == "hlo" || chosen == Input::Hlo) {
      throw;
    }
    // Perhaps it wants text. If not, the first error is the one to show.
    bool second = false;
    try {
      return attempt("stablehlo", stablehlo, second);
    } catch (const CompilerFailed&) {
    }
    throw;
  }
}

}  // namespace neuronx::compiler
