# Each kernel is compiled alone; what they all include is precompiled.
fk_precompile_kernels(fk_backend_cpu)
