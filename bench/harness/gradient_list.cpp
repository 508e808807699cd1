// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/harness/gradient_list.hpp"

#include "bench/harness/option_values.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

namespace perf {
namespace {

using Counts = std::vector<std::int64_t>;

/// Weights without bias, then scale and shift of the following batch normalisation.
void add_convolution(Counts& counts, std::int64_t in, std::int64_t out, std::int64_t kernel) {
  for (const std::int64_t count : {in * out * kernel * kernel, out, out}) counts.push_back(count);
}

void add_linear(Counts& counts, std::int64_t in, std::int64_t out) {
  for (const std::int64_t count : {in * out, out}) counts.push_back(count);
}

void add_layer_norm(Counts& counts, std::int64_t width) {
  for (const std::int64_t count : {width, width}) counts.push_back(count);
}

std::string trimmed(const std::string& line) {
  const std::string text = line.substr(0, line.find('#'));
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Counts counts_of_file(const char* option, const std::string& name) {
  std::ifstream file(name);
  Counts counts;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string text = trimmed(line);
    if (text.empty()) continue;
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }))
      refuse("{} \"{}\", line {}: the file is not a text; give one number of elements per line", option, name, number);
    counts.push_back(whole_number(std::string(option) + " \"" + name + "\", line " + std::to_string(number), text, 1,
                                  std::int64_t{1} << 40, "one number of elements per line, each at least 1"));
  }
  if (counts.empty()) {
    refuse(
        "{} \"{}\": the file cannot be read or has no numbers; give resnet50, bert_base, or a file with one number of "
        "elements per "
        "line",
        option, name);
  }
  return counts;
}

}  // namespace

std::vector<std::int64_t> resnet50() {
  struct Stage {
    int blocks;
    std::int64_t width;
  };
  constexpr std::array<Stage, 4> stages{{{3, 64}, {4, 128}, {6, 256}, {3, 512}}};
  constexpr std::int64_t expansion = 4;
  Counts counts;
  add_convolution(counts, 3, 64, 7);
  std::int64_t in = 64;
  for (const Stage& stage : stages) {
    const std::int64_t out = stage.width * expansion;
    for (int block = 0; block < stage.blocks; ++block) {
      add_convolution(counts, in, stage.width, 1);
      add_convolution(counts, stage.width, stage.width, 3);
      add_convolution(counts, stage.width, out, 1);
      if (block == 0) add_convolution(counts, in, out, 1);  // the shortcut, if the shape changes
      in = out;
    }
  }
  add_linear(counts, in, 1000);
  return counts;
}

std::vector<std::int64_t> bert_base() {
  constexpr std::int64_t width = 768;
  constexpr std::int64_t words = 30522;
  constexpr std::int64_t positions = 512;
  constexpr std::int64_t kinds = 2;
  constexpr std::int64_t inner = 4 * width;
  Counts counts{words * width, positions * width, kinds * width};
  add_layer_norm(counts, width);
  for (int layer = 0; layer < 12; ++layer) {
    for (int i = 0; i < 4; ++i) add_linear(counts, width, width);  // query, key, value, output
    add_layer_norm(counts, width);
    add_linear(counts, width, inner);
    add_linear(counts, inner, width);
    add_layer_norm(counts, width);
  }
  add_linear(counts, width, width);  // the pooler
  return counts;
}

std::vector<std::int64_t> gradient_list(const char* option, const std::string& name) {
  if (name == "resnet50") return resnet50();
  if (name == "bert_base") return bert_base();
  return counts_of_file(option, name);
}

}  // namespace perf
