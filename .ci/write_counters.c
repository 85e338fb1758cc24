// Loaded before a program with counters: `_exit` ends the program like `exit`, which writes the counters. `rowloom` ends with
// `_exit`, because the handlers of other libraries would wait.
#include <stdlib.h>

void _exit(int status) {
    exit(status);
}
