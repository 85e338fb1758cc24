#!/usr/bin/env python3
"""Compiles kernels/*.cu with NVRTC, which needs no GPU: pip install nvidia-cuda-nvrtc-cu12, then run this."""
import ctypes
import pathlib
import sys
import sysconfig

ARCHITECTURES = ["compute_75", "compute_80", "compute_90"]
ROOT = pathlib.Path(__file__).resolve().parent.parent


def load():
    folders = [pathlib.Path(sysconfig.get_path("purelib")) / "nvidia" / "cuda_nvrtc" / "lib", pathlib.Path()]
    for name in ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"]:
        for folder in folders:
            try:
                return ctypes.CDLL(str(folder / name))
            except OSError:
                pass
    sys.exit("no NVRTC: pip install nvidia-cuda-nvrtc-cu12")


def compile_text(nvrtc, text, name, architecture):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return not failed, log.value.decode().strip(), ptx.value.decode().count(".visible .entry")


def main():
    nvrtc, good = load(), True
    for path in sorted((ROOT / "kernels").glob("*.cu")):
        for architecture in ARCHITECTURES:
            compiled, log, entries = compile_text(nvrtc, path.read_text(), path.name, architecture)
            good &= compiled and not log
            print(f"{path.name} {architecture}: {f'{entries} entries' if compiled else 'failed'}")
            if log:
                print(log)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
