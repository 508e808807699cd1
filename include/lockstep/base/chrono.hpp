// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Durations and clocks of <chrono>. With libstdc++ not its calendars, time zones and formatted output, which take
// longer to compile than all else that lockstep.hpp includes from the standard library but <memory>. A program that
// uses these includes <chrono> itself.

#pragma once

#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // what <mutex> and <thread> of libstdc++ include
#else
#include <chrono>
#endif
