// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/plot.hpp"

#include "bench/harness/option_values.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace perf {
namespace {

/// A string of gnuplot in single quotes: a quote inside is doubled.
std::string in_plot_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + '\'';
}

std::string terminal(const std::string& target) {
  constexpr std::string_view text = "set terminal dumb nofeed size 110,32\n";
  if (target == "-") return std::string(text);
  return fmt::format("{}set output {}\n", text, in_plot_quotes(target));
}

/// The points (size, time) of one line of the plot.
using Curve = std::vector<std::pair<std::int64_t, double>>;

/// Curves by title, in the order of their first rows.
class Curves {
 public:
  void add(const std::string& title, std::int64_t bytes, std::optional<double> us) {
    if (!us || *us <= 0 || bytes == 0) return;
    const auto [place, is_new] = numbers_.try_emplace(title, curves_.size());
    if (is_new) curves_.emplace_back(title, Curve());
    curves_[place->second].second.emplace_back(bytes, *us);
  }
  [[nodiscard]] std::string script() const {
    std::string data;
    std::string lines;
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      data += fmt::format("$curve{} << END\n", i);
      for (const auto& [bytes, us] : curves_[i].second) data += fmt::format("{} {}\n", bytes, us);
      data += "END\n";
      lines += fmt::format("{} $curve{} using 1:2 with linespoints title {}", i == 0 ? "plot" : ",", i,
                           in_plot_quotes(curves_[i].first));
    }
    return data + lines + '\n';
  }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::pair<std::string, Curve>> curves_;
};

bool is_text(const std::string& target) { return target == "-" || target.ends_with(".txt"); }

/// Only the first placement.
std::string sweep_script(std::span<const Row> rows) {
  Curves curves;
  for (const Row& row : rows) {
    if (row.identity.in_place != rows.front().identity.in_place) continue;
    const std::string name = row.identity.name();
    curves.add("lockstep " + name, row.bytes, row.time_us());
    curves.add(row.peer_name + " " + name, row.bytes, row.peer ? std::optional(row.peer->times_us.p50) : std::nullopt);
    curves.add("limit " + name, row.bytes, row.limit_us);
  }
  return "set xlabel 'bytes'\nset format x '%.0b %BB'\nset logscale x 2\nset logscale y\n" + curves.script();
}

std::string list_script(std::span<const Row> rows) {
  std::string data = "$bars << END\n";
  for (const Row& row : rows) {
    data += fmt::format("\"{} {} {}\" {} {}\n", row.identity.mode, row.identity.dtype, row.identity.op, row.time_us(),
                        row.peer ? std::to_string(row.peer->times_us.p50) : "NaN");
  }
  data += "END\n";
  const std::string peer = rows.front().peer ? fmt::format(", '' using 3 title '{}'", rows.front().peer_name) : "";
  return data + "set style data histogram\nset style fill solid\nset yrange [0:*]\n" +
         fmt::format("set title {}\n", in_plot_quotes("all_reduce of " + rows.front().identity.list)) +
         "plot $bars using 2:xtic(1) title 'lockstep'" + peer + '\n';
}

/// `text` as one word of a shell.
std::string in_shell_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + '\'';
}

/// Runs `command` with `input` as its standard input. Throws std::runtime_error if it fails.
void run_with_input(const std::string& name, const std::string& command, const std::string& input) {
  std::fflush(stdout);  // the command may write there too
  std::FILE* const pipe = popen(command.c_str(), "w");
  if (pipe == nullptr) throw std::runtime_error(fmt::format("--plot: {} cannot be started", name));
  const bool is_written = std::fwrite(input.data(), 1, input.size(), pipe) == input.size();
  const int status = pclose(pipe);
  if (!is_written || status != 0) throw std::runtime_error(fmt::format("--plot: {} failed; its output is above", name));
}

/// The path of an executable file in PATH; empty if there is none.
std::string find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    folder.append("/").append(name);
    if (access(folder.c_str(), X_OK) == 0) return folder;
  }
  return {};
}

/// lockstep-plot, which is installed beside this program, and built beside it.
std::string path_of_lockstep_plot() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string beside = own.parent_path() / "lockstep-plot";
  if (!error && access(beside.c_str(), X_OK) == 0) return beside;
  return find_in_path("lockstep-plot");
}

}  // namespace

void require_plotter(const std::string& target) {
  if (is_text(target)) {
    if (!find_in_path("gnuplot").empty()) return;
    refuse("--plot \"{}\": gnuplot is not in PATH; install it (Debian package gnuplot-nox), or give no --plot", target);
  }
  const std::string plot = path_of_lockstep_plot();
  if (plot.empty())
    refuse("--plot \"{}\": lockstep-plot is neither beside lockstep-perf nor in PATH; give FILE.txt", target);
  if (std::system((in_shell_quotes(plot) + " --version >/dev/null 2>&1").c_str()) != 0) {
    refuse(
        "--plot \"{}\": lockstep-plot needs python3 and matplotlib; install them (Debian package python3-matplotlib), "
        "or "
        "give FILE.txt, which gnuplot draws",
        target);
  }
}

void draw(std::span<const Row> rows, const std::string& json, const std::string& target) {
  if (!is_text(target)) {
    run_with_input("lockstep-plot", in_shell_quotes(path_of_lockstep_plot()) + " - -o " + in_shell_quotes(target),
                   json);
    return;
  }
  run_with_input("gnuplot", "gnuplot",
                 terminal(target) +
                     "set termoption noenhanced\nset ylabel 'microseconds'\nset grid\nset key outside above left "
                     "vertical\n" +
                     (rows.front().identity.list.empty() ? sweep_script(rows) : list_script(rows)));
  // gnuplot does not end the last line of a plot as text
  if (target == "-") std::fputc('\n', stdout);
  if (target.ends_with(".txt")) std::ofstream(target, std::ios::app) << '\n';
}

}  // namespace perf
