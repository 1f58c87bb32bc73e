// SPDX-License-Identifier: Apache-2.0
// Layout: "NXIR", u32 version, u64 payload size, u64 checksum, payload. The
// payload is a table of programs, each after the bodies it uses; the last is
// the program itself. Values have no numbers: they count up from the
// parameters through the results of each operation.
#include "ir/serialize.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <stdexcept>
#include <unordered_map>

#include "common/hash.h"
#include "ir/verify.h"

namespace neuronx::ir {
namespace {

constexpr char kMagic[] = {'N', 'X', 'I', 'R'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeader = 24;
constexpr int kMaxDepth = 64;

uint64_t checksum(std::string_view payload) {
  const auto digest = sha256(payload);
  uint64_t sum = 0;
  for (int i = 0; i < 8; ++i)
    sum |= uint64_t(digest[i]) << (8 * i);
  return sum;
}

class Writer {
 public:
  std::string bytes;

  template <typename T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes += char(uint64_t(value) >> (8 * i));
  }
  void real(double value) { number(std::bit_cast<uint64_t>(value)); }
  void string(std::string_view text) {
    number(uint32_t(text.size()));
    bytes += text;
  }
  template <typename List, typename Write>
  void list(const List& items, Write write) {
    number(uint32_t(items.size()));
    for (const auto& item : items)
      write(item);
  }

  void type(const TensorType& type) {
    number(uint8_t(type.dtype));
    list(type.shape, [&](int64_t size) { number(size); });
  }

  // The variant's index is part of the format: append only.
  void attribute(const Attribute& attribute) {
    number(uint8_t(attribute.index()));
    std::visit([&](const auto& value) { write(value); }, attribute);
  }

 private:
  void write(std::monostate) {}
  void write(bool value) { number(uint8_t(value)); }
  void write(int64_t value) { number(value); }
  void write(double value) { real(value); }
  void write(const std::string& value) { string(value); }
  void write(const std::vector<int64_t>& values) {
    list(values, [&](int64_t value) { number(value); });
  }
  void write(const std::vector<double>& values) {
    list(values, [&](double value) { real(value); });
  }
  void write(DType value) { number(uint8_t(value)); }
  void write(Operand value) { number(value.index); }
  void write(const OperandList& value) {
    list(value.indices, [&](int32_t index) { number(index); });
  }
  void write(const NumberTensor& value) {
    number(uint8_t(value.dtype));
    number(uint8_t(value.wrapped));
    number(uint8_t(value.value.index()));
    std::visit([&](auto number) { write(number); }, value.value);
    number(value.operand);
  }
};

// The table of programs, each distinct content once.
class Table {
 public:
  explicit Table(bool names) : names_(names) {}

  uint32_t add(const Program& program) {
    if (auto known = by_pointer_.find(&program); known != by_pointer_.end())
      return known->second;
    std::string bytes = write(program);
    auto [entry, added] =
        by_content_.emplace(std::move(bytes), uint32_t(by_content_.size()));
    if (added)
      order_.push_back(&entry->first);
    return by_pointer_[&program] = entry->second;
  }

  std::string payload() const {
    Writer out;
    out.number(uint32_t(order_.size()));
    for (const std::string* bytes : order_)
      out.bytes += *bytes;
    return std::move(out.bytes);
  }

  void operation(Writer& out,
                 const Program& program,
                 const Operation& op,
                 const std::vector<int32_t>& number) {
    out.string(op.name);
    out.list(op.operands, [&](Value v) { out.number(number.at(v.id)); });
    out.list(op.results, [&](Value v) { out.type(program.type(v)); });
    out.list(op.attributes, [&](const auto& attribute) {
      out.string(attribute.first);
      out.attribute(attribute.second);
    });
    out.list(op.arguments,
             [&](const Attribute& argument) { out.attribute(argument); });
    out.list(op.bodies, [&](const auto& body) { out.number(add(*body)); });
  }

 private:
  std::string write(const Program& program) {
    std::vector<int32_t> number(program.types.size(), -1);
    int32_t next = 0;
    Writer out;
    out.string(names_ ? program.name : "");
    out.list(program.parameters, [&](Value v) {
      number.at(v.id) = next++;
      out.type(program.type(v));
    });
    out.list(program.operations, [&](const Operation& op) {
      operation(out, program, op, number);
      for (Value v : op.results)
        number.at(v.id) = next++;
    });
    out.list(program.results, [&](Value v) { out.number(number.at(v.id)); });
    std::vector<int32_t> aliases = program.aliases;
    aliases.resize(program.results.size(), -1);
    out.list(aliases, [&](int32_t alias) { out.number(alias); });
    return std::move(out.bytes);
  }

  bool names_;
  std::unordered_map<const Program*, uint32_t> by_pointer_;
  std::unordered_map<std::string, uint32_t> by_content_;
  std::vector<const std::string*> order_;
};

[[noreturn]] void fail(const std::string& message) {
  throw std::invalid_argument("[deserialize] " + message);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    uint64_t value = 0;
    const std::string_view raw = take(sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i)
      value |= uint64_t(uint8_t(raw[i])) << (8 * i);
    return T(value);
  }
  double real() { return std::bit_cast<double>(number<uint64_t>()); }
  bool boolean() {
    const auto value = number<uint8_t>();
    if (value > 1)
      fail(fmt::format("{} is no bool", value));
    return value;
  }
  std::string string() { return std::string(take(number<uint32_t>())); }
  // Items take at least `item_size` bytes, which bounds the allocation.
  template <typename Read>
  auto list(size_t item_size, Read read) {
    const auto count = number<uint32_t>();
    if (count > bytes_.size() / item_size)
      fail("truncated");
    std::vector<decltype(read())> items;
    items.reserve(count);
    for (uint32_t i = 0; i < count; ++i)
      items.push_back(read());
    return items;
  }

  DType dtype() {
    const auto value = number<uint8_t>();
    if (value >= kDTypeCount)
      fail(fmt::format("unknown dtype {}", value));
    return DType(value);
  }

  TensorType type() {
    const DType element = dtype();
    return {element, list(8, [&] { return number<int64_t>(); })};
  }

  Attribute attribute() {
    switch (const auto kind = number<uint8_t>()) {
      case 0:
        return std::monostate{};
      case 1:
        return boolean();
      case 2:
        return number<int64_t>();
      case 3:
        return real();
      case 4:
        return string();
      case 5:
        return list(8, [&] { return number<int64_t>(); });
      case 6:
        return list(8, [&] { return real(); });
      case 7:
        return dtype();
      case 8:
        return Operand{number<int32_t>()};
      case 9:
        return OperandList{list(4, [&] { return number<int32_t>(); })};
      case 10:
        return number_tensor();
      default:
        fail(fmt::format("unknown attribute kind {}", kind));
    }
  }

  Program program(const std::vector<std::shared_ptr<const Program>>& table) {
    Program p;
    const auto define = [&] {
      const Value v{int32_t(p.types.size())};
      p.types.push_back(type());
      return v;
    };
    const auto use = [&] {
      const Value v{number<int32_t>()};
      if (v.id < 0 || size_t(v.id) >= p.types.size())
        fail(fmt::format("value {} is used before its definition", v.id));
      return v;
    };
    const auto body = [&] {
      const auto index = number<uint32_t>();
      if (index >= table.size())
        fail(fmt::format("body {} is used before its definition", index));
      return table[index];
    };
    p.name = string();
    p.parameters = list(5, define);
    p.operations = list(24, [&] {
      Operation op;
      op.name = string();
      op.operands = list(4, use);
      op.results = list(5, define);
      op.attributes = list(5, [&] {
        std::string key = string();
        return std::pair(std::move(key), attribute());
      });
      op.arguments = list(1, [&] { return attribute(); });
      op.bodies = list(4, body);
      return op;
    });
    p.results = list(4, use);
    p.aliases = list(4, [&] { return number<int32_t>(); });
    return p;
  }

  bool done() const { return bytes_.empty(); }

 private:
  std::string_view take(size_t size) {
    if (size > bytes_.size())
      fail("truncated");
    const std::string_view head = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return head;
  }

  NumberTensor number_tensor() {
    NumberTensor n;
    n.dtype = dtype();
    n.wrapped = boolean();
    switch (const auto kind = number<uint8_t>()) {
      case 0:
        n.value = boolean();
        break;
      case 1:
        n.value = number<int64_t>();
        break;
      case 2:
        n.value = real();
        break;
      default:
        fail(fmt::format("unknown number kind {}", kind));
    }
    n.operand = number<int32_t>();
    return n;
  }

  std::string_view bytes_;
};

}  // namespace

std::string serialize(const Program& program) {
  Table table(true);
  table.add(program);
  const std::string payload = table.payload();
  Writer out;
  out.bytes.assign(kMagic, sizeof(kMagic));
  out.number(kVersion);
  out.number(uint64_t(payload.size()));
  out.number(checksum(payload));
  return out.bytes + payload;
}

Program deserialize(const void* bytes, size_t size) {
  const std::string_view all(static_cast<const char*>(bytes), size);
  if (size < kHeader || std::memcmp(bytes, kMagic, sizeof(kMagic)) != 0)
    fail("not a program");
  Reader header(all.substr(sizeof(kMagic)));
  const auto version = header.number<uint32_t>();
  if (version != kVersion)
    fail(fmt::format(
        "format version {}, this build reads version {}", version, kVersion));
  const std::string_view payload = all.substr(kHeader);
  if (header.number<uint64_t>() != payload.size())
    fail("truncated");
  if (header.number<uint64_t>() != checksum(payload))
    fail("checksum mismatch");

  Reader reader(payload);
  std::vector<std::shared_ptr<const Program>> table;
  std::unordered_map<const Program*, int> depth;
  const auto count = reader.number<uint32_t>();
  if (count == 0)
    fail("no program");
  for (uint32_t i = 0; i < count; ++i) {
    auto program = std::make_shared<Program>(reader.program(table));
    int deepest = 0;
    for (const Operation& op : program->operations)
      for (const auto& body : op.bodies)
        deepest = std::max(deepest, depth[body.get()]);
    // Also keeps the destructor's recursion short.
    if (deepest >= kMaxDepth)
      fail(fmt::format("bodies are nested over {} deep", kMaxDepth));
    depth[program.get()] = deepest + 1;
    table.push_back(std::move(program));
  }
  if (!reader.done())
    fail("bytes after the last program");
  Program result = *table.back();
  verify(result);
  return result;
}

std::string digest(const Program& program) {
  Table table(false);
  table.add(program);
  return sha256_hex(table.payload());
}

std::string fingerprint(const Program& program, const Operation& op) {
  std::vector<int32_t> number(program.types.size());
  for (size_t i = 0; i < number.size(); ++i)
    number[i] = int32_t(i);
  Table table(false);
  Writer out;
  table.operation(out, program, op, number);
  return out.bytes + table.payload();
}

}  // namespace neuronx::ir
