#pragma once

// Symbols are hidden by default; what a program that links Systole may use carries this mark.
#if defined(__GNUC__)
#define SYSTOLE_API __attribute__((visibility("default")))
#else
#define SYSTOLE_API
#endif
