/**
 * @file pylayout.h
 * The C interface of pylayout, in C99. Every function is named pl_*, every constant PL_*.
 */
#ifndef PYLAYOUT_H
#define PYLAYOUT_H

#if defined(__GNUC__)
#define PL_API __attribute__((visibility("default")))
#else
#define PL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What a call came to. */
typedef enum pl_status {
    PL_OK = 0,
} pl_status;

/** The library's version, as "0.1.0". The text lives as long as the library is loaded. Safe from any thread. */
PL_API const char* pl_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PYLAYOUT_H */
