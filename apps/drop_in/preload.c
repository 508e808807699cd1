/* SPDX-FileCopyrightText: The lockstep authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * liblockstep_mpi.so, which a program preloads. Every process of a job loads it, also shells and launchers, so it needs
 * no other library: it opens liblockstep_drop_in.so, and with it lockstep, in MPI_Init.
 *
 * It defines each collective under both of its names, MPI_X and PMPI_X: the Fortran bindings of Open MPI and MPICH call
 * PMPI_X. The functions of the MPI library are the next ones with the name PMPI_X. */

#include "drop_in/calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef OMPI_MAJOR_VERSION
static const char* const library_files[] = {"libmpi.so.40", NULL};
#else
static const char* const library_files[] = {"libmpi.so.12", "libmpich.so.12", NULL};
#endif

#define EXPORT __attribute__((visibility("default")))

/* `where` is RTLD_NEXT for functions, which this library defines itself, and RTLD_DEFAULT for objects, which an
 * executable may have copied. */
static void* find(const char* name, void* where) {
  void* address = dlsym(where, name);
  /* An interpreter may have loaded the MPI library for one of its modules only. */
  for (const char* const* file = library_files; address == NULL && *file != NULL; ++file) {
    void* const library = dlopen(*file, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) address = dlsym(library, name);
  }
  return address;
}

/* A function of the MPI library. Ends the process if there is none, because the caller needs its result. */
static void* find_call(const char* name) {
  void* const address = find(name, RTLD_NEXT);
  if (address == NULL) {
    fprintf(stderr, "liblockstep_mpi: the process calls MPI, but no library that it has loaded defines %s\n", name);
    abort();
  }
  return address;
}

/* ISO C has no conversion from void* to a function pointer; POSIX does. */
#define STORE(target, found)                                         \
  do {                                                               \
    void* const address = found;                                     \
    memcpy((void*)&(target), (const void*)&address, sizeof address); \
  } while (0)
#define LOAD(target, name) STORE(target, find_call(name))

static struct lockstep_calls real;
static pthread_once_t found = PTHREAD_ONCE_INIT;

/* A function that the library lacks, as an older version may, stays NULL. */
static void find_real(void) {
#define FIND(name, parameters, arguments) STORE(real.name, find("PMPI_" #name, RTLD_NEXT));
  LOCKSTEP_EACH_CALL(FIND)
#undef FIND
}

/* The name of a function that the library lacks; NULL if it has all of them. */
static const char* missing_call(void) {
#define CHECK(name, parameters, arguments) \
  if (real.name == NULL) return "PMPI_" #name;
  LOCKSTEP_EACH_CALL(CHECK)
#undef CHECK
  return NULL;
}

/* The functions that the program gets: first those that look for the MPI library's, then those of the drop-in. */
#define FIRST(name, parameters, arguments)   \
  static int first_##name parameters {       \
    pthread_once(&found, find_real);         \
    if (real.name == NULL) LOAD(real.name, "PMPI_" #name); \
    return real.name arguments;              \
  }
LOCKSTEP_EACH_CALL(FIRST)
#undef FIRST

static struct lockstep_drop_in current = {{
#define FIRST(name, parameters, arguments) first_##name,
                                              LOCKSTEP_EACH_CALL(FIRST)
#undef FIRST
                                          },
                                          NULL,
                                          NULL};

#define DEFINE(name, parameters, arguments)                               \
  EXPORT int MPI_##name parameters { return current.calls.name arguments; }     \
  EXPORT int PMPI_##name parameters { return current.calls.name arguments; }
LOCKSTEP_EACH_CALL(DEFINE)
#undef DEFINE

/* What this file itself calls. */
static struct {
  int (*Comm_size)(MPI_Comm, int*);
  int (*Comm_rank)(MPI_Comm, int*);
  int (*Iallreduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*);
  int (*Test)(MPI_Request*, int*, MPI_Status*);
  int (*Abort)(MPI_Comm, int);
  MPI_Comm world;
  MPI_Datatype integer;
  MPI_Op min;
} mpi;

/* Whether the process uses the MPI library for which this file was compiled. Sets the handles of `mpi`. Those of Open MPI
 * are objects of its library, which must not be named here: this library is loaded before it. */
static int find_handles(void) {
#ifdef OMPI_MAJOR_VERSION
  mpi.world = (MPI_Comm)find("ompi_mpi_comm_world", RTLD_DEFAULT);
  mpi.integer = (MPI_Datatype)find("ompi_mpi_int", RTLD_DEFAULT);
  mpi.min = (MPI_Op)find("ompi_mpi_op_min", RTLD_DEFAULT);
  return mpi.world != NULL && mpi.integer != NULL && mpi.min != NULL;
#else
  mpi.world = MPI_COMM_WORLD;
  mpi.integer = MPI_INT;
  mpi.min = MPI_MIN;
  return find("ompi_mpi_comm_world", RTLD_DEFAULT) == NULL;
#endif
}

enum { usage_error = 2, job_failed = 3 };

/* The value of LOCKSTEP_MPI; -1 if it is malformed. */
static int read_mode(void) {
  const char* const text = getenv("LOCKSTEP_MPI");
  if (text == NULL || *text == '\0' || strcmp(text, "on") == 0) return LOCKSTEP_MPI_ON;
  if (strcmp(text, "report") == 0) return LOCKSTEP_MPI_REPORT;
  if (strcmp(text, "off") == 0) return LOCKSTEP_MPI_OFF;
  return -1;
}

/* Opens liblockstep_drop_in.so, which is beside this library, and returns its start function; NULL, and the reason in
 * `why`, if it cannot serve this process. */
static lockstep_drop_in_start_function* open_drop_in(char* why, size_t size) {
  Dl_info here;
  char file[4096];
  if (dladdr((void*)&current, &here) == 0 || here.dli_fname == NULL) {
    snprintf(why, size, "the loader does not know the path of liblockstep_mpi.so");
    return NULL;
  }
  const char* const slash = strrchr(here.dli_fname, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - here.dli_fname) + 1;
  snprintf(file, sizeof file, "%.*sliblockstep_drop_in.so", folder, here.dli_fname);
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    snprintf(why, size, "%s", dlerror());
    return NULL;
  }
  lockstep_drop_in_check_function* check = NULL;
  lockstep_drop_in_start_function* start = NULL;
  STORE(check, dlsym(library, "lockstep_drop_in_check"));
  STORE(start, dlsym(library, "lockstep_drop_in_start"));
  if (check == NULL || start == NULL) {
    snprintf(why, size, "%.400s has another version", file);
    return NULL;
  }
  const char* const reason = check();
  if (reason != NULL) {
    snprintf(why, size, "%s", reason);
    return NULL;
  }
  return start;
}

/* Hydra drops what a process has just written if the job is aborted at once. */
static void abort_job(int code) {
  const struct timespec pause = {0, 100000000};
  nanosleep(&pause, NULL);
  mpi.Abort(mpi.world, code);
}

/* The least value of all ranks. If a rank does not call this function, ends the job after a minute. */
static int least_of_all(int own, int rank) {
  int least = own;
  MPI_Request request;
  struct timespec start;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (mpi.Iallreduce(&own, &least, 1, mpi.integer, mpi.min, mpi.world, &request) != MPI_SUCCESS) return 0;
  for (long calls = 0;; ++calls) {
    int is_complete = 0;
    if (mpi.Test(&request, &is_complete, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
    if (is_complete != 0) return least;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - start.tv_sec > 60) break;
    if (calls > 1000) {
      const struct timespec pause = {0, 100000};
      nanosleep(&pause, NULL);
    }
  }
  fprintf(stderr,
          "liblockstep_mpi: rank %d has waited 60 s in MPI_Init for the other ranks; the library must be preloaded, and "
          "LOCKSTEP_MPI must be equal, on all ranks (with Open MPI: mpirun -x LD_PRELOAD). Aborting the job\n",
          rank);
  abort_job(job_failed);
  return 0;
}

/* Called after MPI has been initialized. */
static void begin(void) {
  const int mode = read_mode();
  if (mode == LOCKSTEP_MPI_OFF) return;
  if (!find_handles()) {
    fprintf(stderr, "liblockstep_mpi: built for another MPI library than that of the program; it does nothing\n");
    return;
  }
  LOAD(mpi.Comm_size, "PMPI_Comm_size");
  LOAD(mpi.Comm_rank, "PMPI_Comm_rank");
  LOAD(mpi.Iallreduce, "PMPI_Iallreduce");
  LOAD(mpi.Test, "PMPI_Test");
  LOAD(mpi.Abort, "PMPI_Abort");
  int size = 0;
  int rank = 0;
  if (mpi.Comm_size(mpi.world, &size) != MPI_SUCCESS || size < 2) return;
  mpi.Comm_rank(mpi.world, &rank);
  if (mode < 0) {
    fprintf(stderr, "liblockstep_mpi: LOCKSTEP_MPI=\"%s\": expected off, report or on\n", getenv("LOCKSTEP_MPI"));
    abort_job(usage_error);
  }
  pthread_once(&found, find_real);
  char why[512] = "";
  lockstep_drop_in_start_function* start = NULL;
  const char* const missing = missing_call();
  if (missing != NULL) {
    snprintf(why, sizeof why, "the MPI library of the program has no %s, and is older than that of lockstep", missing);
  } else {
    start = open_drop_in(why, sizeof why);
  }
  if (start == NULL) fprintf(stderr, "liblockstep_mpi: rank %d: %s; MPI serves all calls\n", rank, why);
  const int least = least_of_all(start == NULL ? -1 : mode, rank);
  const int most = -least_of_all(-mode, rank);
  if (least < 0) return; /* a rank has said why */
  if (least != most) {
    if (rank == 0) fprintf(stderr, "liblockstep_mpi: LOCKSTEP_MPI differs between ranks; MPI serves all calls\n");
    return;
  }
  struct lockstep_drop_in made = {real, NULL, NULL};
  start(&real, (enum lockstep_drop_in_mode)mode, &made);
  current = made;
}

/* MPI_Init may reach PMPI_Init of this library through the MPI_Init of a tool: only the first of both begins. */
static void begin_once(int result) {
  static int has_begun = 0;
  if (result == MPI_SUCCESS && !has_begun) {
    has_begun = 1;
    begin();
  }
}

static int init(const char* next, int* argc, char*** argv) {
  int (*call)(int*, char***) = NULL;
  LOAD(call, next);
  const int result = call(argc, argv);
  begin_once(result);
  return result;
}

static int init_thread(const char* next, int* argc, char*** argv, int required, int* provided) {
  int (*call)(int*, char***, int, int*) = NULL;
  LOAD(call, next);
  const int result = call(argc, argv, required, provided);
  begin_once(result);
  return result;
}

static int finalize(const char* next) {
  int (*call)(void) = NULL;
  LOAD(call, next);
  if (current.before_finalize != NULL) current.before_finalize();
  const int result = call();
  if (current.after_finalize != NULL) current.after_finalize();
  return result;
}

EXPORT int MPI_Init(int* argc, char*** argv) { return init("MPI_Init", argc, argv); }
EXPORT int PMPI_Init(int* argc, char*** argv) { return init("PMPI_Init", argc, argv); }
EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return init_thread("MPI_Init_thread", argc, argv, required, provided);
}
EXPORT int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return init_thread("PMPI_Init_thread", argc, argv, required, provided);
}
EXPORT int MPI_Finalize(void) { return finalize("MPI_Finalize"); }
EXPORT int PMPI_Finalize(void) { return finalize("PMPI_Finalize"); }
