/* A screen -> the numbers of its active inputs: what eye.py, shapes.py, motion.py and features.py say, in the same
 * numbers and a fifth to a tenth of the time. Those files are the definition; names here are theirs, and tests hold the two against
 * each other. compiled.py calls this through ctypes, so it needs a C compiler and no header of Python's. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 80, WIDTH = 80, PIXELS = HEIGHT * WIDTH, LINE = 160, TOP = 35 };
enum { MOST_OF_SHAPES = 800, MOST_PAIRS = 400 };
enum { PAIR, DIFFERENCE, MOTION, COURSE, EDGE };

/* motion.py: how its inputs are numbered. */
enum { REACH_DOWN = 10, REACH_ACROSS = 10, BORDER = 2 * HEIGHT - 2, DRIFT_REACH = 26, CHANGE = 4 };
enum { CELLS_ACROSS = 10, MOVES_IN_CELL = 10 * 11, MOVES = 21 * CELLS_ACROSS * MOVES_IN_CELL };
enum { MOTIONS_DOWN = 5, MOTIONS = 5 * MOTIONS_DOWN, RELATIONS = 41 * 20 * MOTIONS };
enum { DRIFTS = 33, SIDE = 11 * DRIFTS, CHANGED = 11 };
enum { FIRST = 2 * PIXELS, FIRST_RELATION = FIRST + MOVES, FIRST_COURSE = FIRST_RELATION + RELATIONS };

typedef struct { int32_t y, x; } shape;  /* half row of its middle, column of its left edge */

typedef struct {
    int32_t count, shapes;       /* shapes is -1 where there are too many pixels to look for any */
    int32_t number[PIXELS];      /* active positions, plane after plane */
    shape shape[MOST_OF_SHAPES];
} scene;

/* One env's memory. The arrays belong to compiled.py, which lays this out as a numpy dtype of the same size. */
typedef struct {
    const uint8_t *screen;       /* (H, 160) */
    const uint8_t *usual;        /* (80, 160): the usual background where even columns are, else 0 */
    const uint8_t *rare;         /* (rare_count, 6400) */
    const uint8_t *plane;        /* (256,) */
    int64_t *found;              /* the observation: at least 2 * PIXELS + INPUTS of motion.py */
    int32_t kind, rare_count, planes, now;
    scene scene[3];              /* now, and one and two steps before it, going round */
} memory;

int64_t look_bytes(void) { return sizeof(memory); }
uint32_t look_source(void) { return SOURCE; }  /* the CRC-32 of this file, by setup.py: a library of another is refused */

/* -- eye.py ------------------------------------------------------------------------------------------------ */

/* The active positions in order, and the plane of each one's colour: how many. */
static int active(const memory *m, int32_t *position, uint8_t *plane)
{
    uint64_t even, screen, usual;
    const uint8_t bytes[8] = {255, 0, 255, 0, 255, 0, 255, 0};
    int n = 0;
    memcpy(&even, bytes, 8);
    for (int y = 0; y < HEIGHT; y++) {
        const uint8_t *line = m->screen + (TOP + 2 * y) * LINE, *background = m->usual + y * LINE;
        for (int start = 0; start < LINE; start += 8) {  /* four positions at once: most show the background */
            memcpy(&screen, line + start, 8);
            memcpy(&usual, background + start, 8);
            if ((screen & even) == usual) continue;
            for (int at = start; at < start + 8; at += 2) {
                int pixel = y * WIDTH + at / 2, shows = line[at] != background[at];
                for (int k = 0; shows && k < m->rare_count; k++) shows = line[at] != m->rare[k * PIXELS + pixel];
                if (!shows) continue;
                position[n] = pixel;
                plane[n++] = m->plane[line[at]];
            }
        }
    }
    return n;
}

/* -- shapes.py --------------------------------------------------------------------------------------------- */

/* The first of each run of pixels in a row, among sorted ones: how many. ``ends`` may be ``pixels``. */
static int left_ends(const int32_t *pixels, int count, int32_t *ends)
{
    int n = 0, before = -2;
    for (int i = 0; i < count; i++) {
        int pixel = pixels[i];
        if (pixel != before + 1 || pixel % WIDTH == 0) ends[n++] = pixel;
        before = pixel;
    }
    return n;
}

/* The shapes of a scene, from the sorted left ends of its rows. */
static void find(scene *s, const int32_t *ends, int count)
{
    int32_t upper[MOST_OF_SHAPES];
    uint8_t goes_on[MOST_OF_SHAPES] = {0};
    for (int i = 0, above = 0; i < count; i++) {
        while (ends[above] < ends[i] - WIDTH) above++;
        int joins = ends[above] == ends[i] - WIDTH;
        upper[i] = joins ? upper[above] : ends[i];
        if (joins) goes_on[above] = 1;
    }
    s->shapes = 0;
    for (int i = 0; i < count; i++)
        if (!goes_on[i]) s->shape[s->shapes++] = (shape){upper[i] / WIDTH + ends[i] / WIDTH, ends[i] % WIDTH};
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void find_shapes(scene *s, int planes)
{
    int32_t ends[MOST_OF_SHAPES];
    s->shapes = -1;
    if (s->count > MOST_OF_SHAPES) return;
    for (int i = 0; i < s->count; i++) ends[i] = s->number[i] % PIXELS;
    if (planes > 1) qsort(ends, s->count, sizeof *ends, ascending);
    find(s, ends, left_ends(ends, s->count, ends));
}

/* -- motion.py --------------------------------------------------------------------------------------------- */

static int bin(int number, int width)
{
    int size = (abs(number) + width / 2) / width;
    return number > 0 ? size : -size;
}

static int sized(int number, int limit)
{
    return (number > 0) - (number < 0) + (number > limit) - (number < -limit);
}

static int among(shape which, const shape *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].y == which.y && all[i].x == which.x) return 1;
    return 0;
}

/* Those of ``all`` that are not in ``others``: how many. */
static int less(const shape *all, int count, const shape *others, int other_count, shape *out)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        if (!among(all[i], others, other_count)) out[n++] = all[i];
    return n;
}

/* The shortest way straight up or down to a place, in half rows; 0 if none is in reach, or two are as short. */
static int way(int y, int x, const shape *before, int count)
{
    int shortest = DRIFT_REACH + 1, sum = 0;
    for (int i = 0; i < count; i++) {
        int down = y - before[i].y, length = abs(down);
        if (before[i].x != x || length > DRIFT_REACH || length > shortest) continue;
        sum = length < shortest ? down : sum + down;
        shortest = length;
    }
    return sum;
}

static int drift(shape other, const shape *before, int count, const scene *earlier)
{
    static const int ends[] = {1, 4, 8, 13, 18};
    int down = way(other.y, other.x, before, count), number = 0;
    if (!down) return 0;
    int change = down - way(other.y - down, other.x, earlier->shape, earlier->shapes);
    while (number < 5 && ends[number] < abs(down)) number++;
    return (down > 0 ? number : -number) + CHANGED * ((change > CHANGE) - (change < -CHANGE));
}

/* The course on which a shape that moves by (down, across) will meet another one's column; 0: on none. */
static int course(shape at, int down, int across, shape other, int its_drift)
{
    static const int ends[] = {1, 2, 3, 4, 6, 8, 11, 15, 20, 28};
    double time = (double)(2 * (other.x - at.x)) / (2 * across), period = 2 * BORDER;
    int arrival = 0;
    if (time <= 0) return 0;
    double y = fmod(at.y + down * time, period);
    if (y < 0) y += period;
    if (y > BORDER) y = period - y;
    int beside = (int)nearbyint(y - other.y), size = abs(beside);
    size = size <= 24 ? bin(size, 2) : 12 + (size - 8) / 16;
    while (arrival < 10 && ends[arrival] < time) arrival++;
    return FIRST_COURSE + (21 + (beside > 0 ? size : -size)) * 2 * SIDE + (across > 0 ? SIDE : 0) + arrival * DRIFTS
        + DRIFTS / 2 + its_drift;
}

/* The inputs for what moved, unsorted and some of them twice: how many; -1 where nobody can tell. */
static int inputs(const scene *now, const scene *before, const scene *earlier, int courses, int32_t *out)
{
    shape new_now[MOST_OF_SHAPES], new_before[MOST_OF_SHAPES];
    const shape *here = now->shape, *was = before->shape;
    int heres = now->shapes, wass = before->shapes, n = 0;
    if (heres < 0 || wass < 0 || earlier->shapes < 0) return -1;
    int moved = less(here, heres, was, wass, new_now);
    if (heres * wass > MOST_PAIRS) {
        wass = less(was, wass, here, heres, new_before);
        was = new_before, here = new_now, heres = moved;
        if (heres * wass > MOST_PAIRS) return -1;
    }
    for (int i = 0; i < moved; i++) {
        shape at = new_now[i];
        int shortest = INT32_MAX;
        for (int pass = 0; pass < 2; pass++)  /* first for the shortest step */
            for (int j = 0; j < wass; j++) {
                int down = at.y - was[j].y, across = at.x - was[j].x, length = abs(down) + 2 * abs(across);
                if (abs(down) > REACH_DOWN || across < -REACH_ACROSS || across >= REACH_ACROSS) continue;
                if (!pass) {
                    if (length < shortest) shortest = length;
                    continue;
                }
                out[n++] = FIRST + ((bin(at.y - BORDER / 2, 8) + 10) * CELLS_ACROSS + at.x / 8) * MOVES_IN_CELL
                    + (across + REACH_ACROSS) / 2 * 11 + bin(down, 2) + 5;
                if (!across || length > shortest) continue;
                int motion = (2 + sized(across, 3)) * MOTIONS_DOWN + 2 + sized(down, 4);
                for (int k = 0; k < heres; k++) {
                    shape other = here[k];
                    if (other.y == at.y && other.x == at.x) continue;
                    out[n++] = FIRST_RELATION
                        + ((bin(at.y - other.y, 8) + 20) * 20 + (at.x - other.x + WIDTH) / 8) * MOTIONS + motion;
                    if (!courses) continue;
                    int its = among(other, was, wass) ? 0 : drift(other, was, wass, earlier);
                    int meets = course(at, down, across, other, its);
                    if (meets) out[n++] = meets;
                }
            }
    }
    return n;
}

/* -- features.py ------------------------------------------------------------------------------------------- */

/* Those of one sorted list that are not in another, plus ``shift``: how many. */
static int without(const scene *all, const scene *others, int shift, int64_t *out)
{
    int n = 0;
    for (int i = 0, j = 0; i < all->count; i++) {
        while (j < others->count && others->number[j] < all->number[i]) j++;
        if (j == others->count || others->number[j] != all->number[i]) out[n++] = all->number[i] + shift;
    }
    return n;
}

static int copy(const int32_t *numbers, int count, int shift, int64_t *out)
{
    for (int i = 0; i < count; i++) out[i] = numbers[i] + shift;
    return count;
}

/* The observation of the three scenes: how many active inputs, in ``found``. */
static int observe(memory *m)
{
    static int32_t moves[MOST_PAIRS + 2 * MOST_PAIRS * MOST_PAIRS];  /* the most there can be; hardly any is touched */
    const scene *now = m->scene + m->now, *before = m->scene + (m->now + 2) % 3, *earlier = m->scene + (m->now + 1) % 3;
    int size = m->planes * PIXELS, count, n;
    if (m->kind == DIFFERENCE) {
        n = without(now, before, 0, m->found);
        return n + without(before, now, size, m->found + n);
    }
    count = m->kind == PAIR ? -1 : inputs(now, before, earlier, m->kind != MOTION, moves);
    if (count < 0) {
        n = copy(now->number, now->count, 0, m->found);
        return n + copy(before->number, before->count, size, m->found + n);
    }
    if (m->kind == EDGE) {
        int32_t ends[MOST_OF_SHAPES];
        n = copy(ends, left_ends(now->number, now->count, ends), 0, m->found);
    } else {
        n = copy(now->number, now->count, 0, m->found);
    }
    qsort(moves, count, sizeof *moves, ascending);
    for (int i = 0; i < count; i++)
        if (!i || moves[i] != moves[i - 1]) m->found[n++] = moves[i] + 2 * (size - PIXELS);
    return n;
}

static void see(memory *m, scene *s)
{
    int32_t position[PIXELS];
    uint8_t plane[PIXELS];
    int seen = active(m, position, plane);
    s->count = 0;
    for (int k = 0; k < m->planes; k++)
        for (int i = 0; i < seen; i++)
            if (plane[i] == k) s->number[s->count++] = position[i] + k * PIXELS;
    if (m->kind >= MOTION) find_shapes(s, m->planes);
}

/* The observation after one more step. */
int look_step(memory *m)
{
    m->now = (m->now + 1) % 3;
    see(m, m->scene + m->now);
    return observe(m);
}

/* The first observation of a game: nothing moved yet. */
int look_start(memory *m)
{
    m->now = 0;
    see(m, m->scene);
    m->scene[1] = m->scene[2] = m->scene[0];
    return observe(m);
}

/* The observation of three scenes that were put into memory. */
int look_again(memory *m)
{
    for (int k = 0; k < 3; k++)
        if (m->kind >= MOTION) find_shapes(m->scene + k, m->planes);
    return observe(m);
}
