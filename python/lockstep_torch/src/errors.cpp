// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <Python.h>
// Python.h comes first

#include "errors.hpp"

#include <c10/util/Exception.h>

namespace lockstep_torch {

void throw_error(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }

void without_gil(const std::function<void()>& body) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return body();
  PyThreadState* const state = PyEval_SaveThread();
  try {
    body();
  } catch (...) {
    PyEval_RestoreThread(state);
    throw;
  }
  PyEval_RestoreThread(state);
}

}  // namespace lockstep_torch
