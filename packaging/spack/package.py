# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Spack recipe: copy it to packages/lockstep/package.py of a repository of your own. Not run here.

from spack.package import *


class Lockstep(MesonPackage, CudaPackage):
    """Synchronous data-parallel programs over MPI: strategies, collectives and replica values."""

    homepage = "https://example.org/lockstep"
    git = "https://example.org/lockstep.git"

    license("Apache-2.0")

    version("main", branch="main")

    variant("apps", default=True, description="Build lockstep-train and the other programs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0.1:", type="build")
    depends_on("cmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python", type="build")
    depends_on("mpi@3.1:")
    depends_on("fmt@9:")
    depends_on("zlib-api")
    depends_on("highway@1.0.3:")
    depends_on("nlohmann-json@3.11:")
    depends_on("hwloc@2:")
    depends_on("boost+program_options", when="+apps")
    depends_on("onednn", when="+apps")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.27.3:", when="+cuda")

    def setup_build_environment(self, env):
        env.set("MPICXX", self.spec["mpi"].mpicxx)

    def meson_args(self):
        return [
            "-Dmpi=wrapper",
            "-Dtests=disabled",
            "-Dcuda=" + ("enabled" if self.spec.satisfies("+cuda") else "disabled"),
            "-Dapps=" + ("enabled" if self.spec.satisfies("+apps") else "disabled"),
            "-Dbench=" + ("enabled" if self.spec.satisfies("+apps") else "disabled"),
        ]
