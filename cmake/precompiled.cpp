// The source of the targets that own a precompiled header (cmake/precompiled.cmake).
int main() { return 0; }
