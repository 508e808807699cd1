// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// safetensors-copy FROM TO: reads one safetensors file and writes its tensors to another.

#include <lockstep/lockstep.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    lockstep::save_safetensors(argv[2], lockstep::load_safetensors(argv[1]));
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "safetensors-copy: %s\n", error.what());
    return 1;
  }
  return 0;
}
