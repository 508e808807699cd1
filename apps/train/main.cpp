// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/program.hpp"

int main(int argc, char** argv) { return train::run_lockstep_train(argc, argv, train::gpu::open_backend); }
