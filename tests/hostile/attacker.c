/* The attacker: changes what a name stands for, as fast as the machine allows, until SIGTERM.
 *
 *   attacker exchange A B            swap two names, again and again
 *   attacker bounce A B WATCHED      rename A to B and back; WATCHED (a path beneath A) tells
 *                                    whether anything was put in there while it was away
 *   attacker leaf A B TEXT LINK      swap a file and a link, planting again what was replaced
 *   attacker steal DIR LINK PREFIX   put a link in the place of every staged file seen in DIR
 *
 * On SIGTERM it prints how often it swapped and how often something followed its parent, and ends
 * with everything as it was at the start. attacker.py does the same without a compiler, slower.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop = 0;
static unsigned long swaps = 0, followed = 0;

static void on_signal(int number) { (void)number; stop = 1; }

/* Mostly as fast as possible, at times long enough for a whole verb. The long waits sleep: one who
 * sleeps is woken on a busy machine too, where one who spins loses the processor for a long time. */
static void dwell(void) {
    static unsigned long state = 88172645463325252UL;
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    if (state & 6) {
        for (volatile unsigned long spin = (state >> 8) & 1023; spin; spin--) { }
        return;
    }
    struct timespec pause = { 0, (long)((state >> 8) % 150000) };
    nanosleep(&pause, NULL);
}

static void plant_file(const char *path, const char *text) {
    char staged[4200];
    snprintf(staged, sizeof staged, "%s.planting", path);
    int fd = open(staged, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0) return;
    if (write(fd, text, strlen(text)) < 0) { /* the next round plants it again */ }
    close(fd);
    rename(staged, path);
}

static void plant_link(const char *path, const char *text) {
    char staged[4200];
    snprintf(staged, sizeof staged, "%s.planting", path);
    unlink(staged);
    if (symlink(text, staged) == 0) rename(staged, path);
}

static int kind_of(const char *path) {
    struct stat status;
    if (lstat(path, &status)) return 0;
    return S_ISLNK(status.st_mode) ? 'l' : 'f';
}

/* The victim may have replaced or removed either name: one file and one link must stand again. */
static void replant(const char *a, const char *b, const char *text, const char *link) {
    int first = kind_of(a), second = kind_of(b);
    if (first && second && first != second) return;
    if (first != 'f' && second != 'f') plant_file(first ? b : a, text);
    first = kind_of(a), second = kind_of(b);
    if (first != 'l' && second != 'l') plant_link(first == 'f' ? b : a, link);
}

static void exchange(const char *a, const char *b) {
    if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0) swaps++;
}

static void bounce(const char *a, const char *b, int watched) {
    struct stat before, after;
    if (rename(a, b)) return;
    fstat(watched, &before);
    dwell();
    fstat(watched, &after);
    if (before.st_mtim.tv_sec != after.st_mtim.tv_sec
        || before.st_mtim.tv_nsec != after.st_mtim.tv_nsec) followed++;
    rename(b, a);
    swaps++;
}

/* A link in the place of what the victim is about to publish; the staged file itself is kept away
 * from it under another name. */
static void steal(const char *directory, const char *link, const char *prefix) {
    DIR *listing = opendir(directory);
    if (!listing) return;
    int fd = dirfd(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (strncmp(entry->d_name, prefix, strlen(prefix))) continue;
        if (renameat(fd, entry->d_name, fd, "stolen") == 0
            && symlinkat(link, fd, entry->d_name) == 0) swaps++;
        unlinkat(fd, "stolen", 0);
    }
    closedir(listing);
}

int main(int count, char **given) {
    if (count < 4) return 2;
    const char *mode = given[1], *a = given[2], *b = given[3];
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGTERM, &action, NULL);
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
    int watched = -1;
    if (!strcmp(mode, "bounce")) watched = open(given[4], O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (!stop) {
        if (!strcmp(mode, "bounce")) bounce(a, b, watched);
        else if (!strcmp(mode, "steal")) steal(a, b, given[4]);
        else {
            if (!strcmp(mode, "leaf")) replant(a, b, given[4], given[5]);
            exchange(a, b);
        }
        dwell();
    }
    if (!strcmp(mode, "exchange") && (swaps & 1)) exchange(a, b);
    printf("%lu %lu\n", swaps, followed);
    return 0;
}
