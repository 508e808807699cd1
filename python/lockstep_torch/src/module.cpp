// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions that lockstep_torch/__init__.py calls.

#include "arena_allocator.hpp"
#include "backend.hpp"
#include "errors.hpp"
#include "group.hpp"
#include "replicas.hpp"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

namespace lockstep_torch {
namespace {

std::optional<std::chrono::milliseconds> milliseconds(std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return std::chrono::milliseconds(std::llround(*seconds * 1000));
}

c10::intrusive_ptr<c10d::Backend> create(int rank, int size, std::vector<int> ranks_in_world, int tag, std::string name,
                                         std::optional<double> timeout) {
  return c10::make_intrusive<Backend>(
      BackendOptions{rank, size, std::move(ranks_in_world), tag, std::move(name), milliseconds(timeout)});
}

std::vector<int> place() {
  const Place here = with_torch_errors([] { return start(); });
  return {here.rank, here.size, here.local_rank, here.local_size, here.nodes};
}

}  // namespace
}  // namespace lockstep_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  using namespace lockstep_torch;
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::module_::import("torch._C._distributed_c10d");  // has the base class
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(m, "Backend");
  m.def("create", &create, Unlocked());
  m.def("start", &place, Unlocked());
  m.def(
      "text_of_rank_0", [](const std::string& text) { return with_torch_errors([&] { return text_of_rank_0(text); }); },
      Unlocked());
  m.def("finish", &finish, Unlocked());
  m.def("abort_all", &abort_all, Unlocked());
  m.def("set_time_in_call",
        [](double seconds) { set_time_in_call(std::chrono::microseconds(std::llround(seconds * 1e6))); });
  m.def("put_tensors_in_arena", &put_tensors_in_arena);
  m.def("put_tensors_in_ordinary_memory", &put_tensors_in_ordinary_memory);
  m.def("is_in_arena", &is_in_arena);
  py::class_<Replicas>(m, "Replicas")
      .def(py::init([](int local, std::optional<double> timeout) {
             return std::make_unique<Replicas>(local, milliseconds(timeout));
           }),
           Unlocked())
      .def_property_readonly("count", &Replicas::count)
      .def_property_readonly("first", &Replicas::first)
      .def("all_reduce", &Replicas::all_reduce, Unlocked());
}
