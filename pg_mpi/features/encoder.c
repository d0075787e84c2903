/* General features: screens -> observations. The results and names are those of foreground.py, blobs.py and
 * blob_inputs.py; tests compare the two. native_encoder.py calls this file through ctypes. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 160, HEIGHT = 256, MOST_RUNS = 1024, MOST_BLOBS = 96, MOST_PAIRS = 256, MOST_CLASSES = 16 };
enum { REACH = 8, SIZE_WEIGHT = 4, TILE = 8, CELL = 16, BANDS = 32, CHANGE = 4 };
enum { TILES_DOWN = HEIGHT / TILE, TILES_ACROSS = WIDTH / TILE, TILES = TILES_DOWN * TILES_ACROSS };
enum { ROWS = HEIGHT * (WIDTH / BANDS), COLUMNS = WIDTH * (HEIGHT / BANDS) };
enum { SPEEDS = 9, MOVES = (HEIGHT / CELL) * (WIDTH / CELL) * SPEEDS * SPEEDS };
enum { OCTAVES = 19, OFFSETS = OCTAVES * OCTAVES, RELATIONS = 9 * OFFSETS };
enum { TIMES = 6, LONGEST = 1 << (TIMES - 1), HALVES = 33, CROSSINGS = 2 * 2 * TIMES * HALVES };
enum { DRIFTS = 7, DRIFTING = CROSSINGS * DRIFTS * 3 };
enum { MOST_FOUND = MOST_CLASSES * TILES + 3 * MOST_BLOBS + 6 * MOST_PAIRS };

/* Positions and steps are in half pixels. The fields of Blob in blobs.py, in their order. */
typedef struct { int16_t y, x, height, width, colour, vy, vx, ay, ax; } blob;
typedef struct { int32_t count; blob blob[MOST_BLOBS]; } blobs;
typedef struct { int16_t row, first, last, colour; int32_t parent; } run;

/* State of one env. native_encoder.py owns the arrays and declares the same layout as a numpy dtype. */
typedef struct {
    const uint8_t *screen;       /* (height, 160) */
    const uint8_t *backgrounds;  /* (count, height, 160) */
    const uint8_t *classes;      /* (256,) */
    int64_t *found;              /* (MOST_FOUND,): the observation */
    int32_t height, background_count, colours, now;
    blobs seen[2];               /* of the current and the previous screen, alternating */
} memory;

int64_t encoder_bytes(void) { return sizeof(memory); }
int64_t encoder_most_found(void) { return MOST_FOUND; }
uint32_t encoder_source(void) { return SOURCE; }  /* CRC-32 of this file, set by setup.py */

/* -- foreground.py and the tiles -------------------------------------------------------------------------------- */

/* Return 8 bytes as a word, the first byte lowest. */
static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Return the high bit of each byte that is not 0. */
static uint64_t nonzero(uint64_t word)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    return (((word & low) + low) | word) & ~low;
}

/* Find the runs of one row, at most WIDTH, and return their number. Rows and words equal to the first background are
 * skipped: reading the screen takes most of an observation's time. */
static int runs_of_row(const memory *m, int row, run *out)
{
    const uint8_t *line = m->screen + row * WIDTH, *usual = m->backgrounds + row * WIDTH;
    uint64_t differs = 0;
    int count = 0;
    for (int start = 0; start < WIDTH; start += 8) differs |= word_at(line + start) ^ word_at(usual + start);
    if (!differs) return 0;
    for (int start = 0; start < WIDTH; start += 8) {
        uint64_t word = word_at(line + start), foreground = ~(uint64_t)0;
        if (word == word_at(usual + start)) continue;
        for (int k = 0; k < m->background_count; k++)
            foreground &= nonzero(word ^ word_at(usual + k * m->height * WIDTH + start));
        for (; foreground; foreground &= foreground - 1) {
            int column = start + __builtin_ctzll(foreground) / 8, colour = m->classes[line[column]];
            if (count && out[count - 1].last == column - 1 && out[count - 1].colour == colour)
                out[count - 1].last = column;
            else
                out[count++] = (run){row, column, column, colour, 0};
        }
    }
    return count;
}

/* -- blobs.py ---------------------------------------------------------------------------------------------------- */

static int root(run *runs, int i)
{
    while (runs[i].parent != i) i = runs[i].parent = runs[runs[i].parent].parent;
    return i;
}

static void join(run *runs, int k, int i)
{
    if (runs[k].colour != runs[i].colour) return;
    int one = root(runs, k), two = root(runs, i);
    if (one < two) runs[two].parent = one; else runs[one].parent = two;
}

/* Join the runs of a row, ``start`` to ``end``, with those of the row above, from ``above``, and with each other. */
static void join_row(run *runs, int above, int start, int end)
{
    for (int i = start; i < end; i++) {
        while (above < start && runs[above].last < runs[i].first - 1) above++;
        for (int k = above; k < start && runs[k].first <= runs[i].last + 1; k++) join(runs, k, i);
        for (int k = i - 1; k >= start && runs[k].last >= runs[i].first - 2; k--) join(runs, k, i);
    }
}

/* Find the blobs of joined runs, in scan order; none if there are too many. */
static void find(blobs *seen, run *runs, int count)
{
    int16_t top[MOST_BLOBS], bottom[MOST_BLOBS], left[MOST_BLOBS], right[MOST_BLOBS];
    int n = 0;
    seen->count = 0;
    for (int i = 0; i < count; i++) {
        int first = root(runs, i), b;
        if (first == i) {
            if (n == MOST_BLOBS) return;
            top[n] = runs[i].row, left[n] = runs[i].first, right[n] = runs[i].last;
            seen->blob[n].colour = runs[i].colour;
            runs[i].row = n++;  /* now the number of its blob */
            bottom[n - 1] = top[n - 1];
            continue;
        }
        b = runs[first].row;
        bottom[b] = runs[i].row;  /* runs are in row order */
        if (runs[i].first < left[b]) left[b] = runs[i].first;
        if (runs[i].last > right[b]) right[b] = runs[i].last;
    }
    for (int k = 0; k < n; k++)
        seen->blob[k] = (blob){top[k] + bottom[k], left[k] + right[k], bottom[k] - top[k] + 1, right[k] - left[k] + 1,
                               seen->blob[k].colour, 0, 0, 0, 0};
    seen->count = n;
}

static void track(blobs *now, const blobs *before, int height)
{
    int reach_y = 2 * (height / REACH), reach_x = 2 * (WIDTH / REACH);
    for (int i = 0; i < now->count; i++) {
        blob *b = now->blob + i;
        const blob *origin = NULL;
        int least = INT32_MAX;
        for (int j = 0; j < before->count; j++) {
            const blob *other = before->blob + j;
            int vy = abs(b->y - other->y), vx = abs(b->x - other->x), distance;
            if (other->colour != b->colour || vy > reach_y || vx > reach_x) continue;
            distance = vy + vx + SIZE_WEIGHT * (abs(b->height - other->height) + abs(b->width - other->width));
            if (distance < least) least = distance, origin = other;
        }
        if (!origin) continue;
        b->vy = b->y - origin->y, b->vx = b->x - origin->x;
        b->ay = b->vy - origin->vy, b->ax = b->vx - origin->vx;
    }
}

/* -- blob_inputs.py ---------------------------------------------------------------------------------------------- */

static int sign(int number) { return (number > 0) - (number < 0); }

static int bin(int number, const int16_t *ends, int count)
{
    int size = 0;
    while (size < count && ends[size] < abs(number)) size++;
    return count + (number > 0 ? size : -size);
}

static int octave(int number)
{
    static const int16_t ends[] = {0, 1, 2, 4, 8, 16, 32, 64, 128};
    return bin(number, ends, OCTAVES / 2);
}

static int halves(int number)
{
    static const int16_t ends[] = {0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181};
    return bin(number, ends, HALVES / 2);
}

static int speed(int step)
{
    static const int16_t ends[] = {0, 4, 12, 24};
    return bin(step, ends, SPEEDS / 2);
}

static int drift(int step, int change)
{
    static const int16_t ends[] = {0, 4, 16};
    return bin(step, ends, DRIFTS / 2) * 3 + 1 + (step ? (change > CHANGE) - (change < -CHANGE) : 0);
}

/* Number of the first input of each block. */
typedef struct { int rows, columns, moves, offsets, relations, crossings, drifting; } layout;

static layout layout_of(int colours)
{
    layout at;
    at.rows = colours * TILES;
    at.columns = at.rows + colours * ROWS;
    at.moves = at.columns + colours * COLUMNS;
    at.offsets = at.moves + colours * MOVES;
    at.relations = at.offsets + colours * colours * OFFSETS;
    at.crossings = at.relations + colours * RELATIONS;
    at.drifting = at.crossings + colours * CROSSINGS;
    return at;
}

static int64_t *place(const blob *b, const layout *at, int64_t *out)
{
    int row = b->y / 2, column = b->x / 2;
    *out++ = at->rows + b->colour * ROWS + row * (WIDTH / BANDS) + column / BANDS;
    *out++ = at->columns + b->colour * COLUMNS + column * (HEIGHT / BANDS) + row / BANDS;
    if (b->vy || b->vx)
        *out++ = at->moves + b->colour * MOVES
            + ((row / CELL * (WIDTH / CELL) + column / CELL) * SPEEDS + speed(b->vy)) * SPEEDS + speed(b->vx);
    return out;
}

static int64_t *relation(const blob *mover, const blob *other, int colours, const layout *at, int64_t *out)
{
    int place = octave((mover->y - other->y) / 2) * OCTAVES + octave((mover->x - other->x) / 2);
    *out++ = at->offsets + (mover->colour * colours + other->colour) * OFFSETS + place;
    *out++ = at->relations + (other->colour * OFFSETS + place) * 9 + (1 + sign(mover->vy)) * 3 + 1 + sign(mover->vx);
    return out;
}

static int64_t *crossing(const blob *mover, const blob *other, int axis, const layout *at, int64_t *out)
{
    int velocity = axis ? mover->vy : mover->vx, away = axis ? other->y - mover->y : other->x - mover->x;
    int beside, time = 0, number;
    if (velocity * away <= 0 || abs(away) > LONGEST * abs(velocity)) return out;
    double steps = (double)away / velocity;
    beside = (int)nearbyint(axis ? mover->x + mover->vx * steps - other->x : mover->y + mover->vy * steps - other->y);
    while ((1 << time) * abs(velocity) < abs(away)) time++;
    number = (((other->colour * 2 + axis) * 2 + (velocity > 0)) * TIMES + time) * HALVES + halves(beside);
    *out++ = at->crossings + number;
    *out++ = at->drifting + number * DRIFTS * 3 + (axis ? drift(other->vx, other->ax) : drift(other->vy, other->ay));
    return out;
}

static int64_t *inputs(const blobs *seen, int colours, const layout *at, int64_t *out)
{
    int movers = 0;
    for (int i = 0; i < seen->count; i++) {
        out = place(seen->blob + i, at, out);
        movers += seen->blob[i].vy || seen->blob[i].vx;
    }
    if (movers * seen->count > MOST_PAIRS) return out;
    for (int i = 0; i < seen->count; i++) {
        const blob *mover = seen->blob + i;
        if (!mover->vy && !mover->vx) continue;
        for (int j = 0; j < seen->count; j++) {
            const blob *other = seen->blob + j;
            if (other->vy == mover->vy && other->vx == mover->vx) continue;
            out = relation(mover, other, colours, at, out);
            out = crossing(mover, other, 0, at, out);
            out = crossing(mover, other, 1, at, out);
        }
    }
    return out;
}

/* -- encoder.py -------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sort numbers in place, remove duplicates, and return how many remain. */
static int sorted_set(int64_t *numbers, int count)
{
    int n = 0;
    if (count > 64) {
        qsort(numbers, count, sizeof *numbers, ascending);
    } else {
        for (int i = 1; i < count; i++) {
            int64_t number = numbers[i];
            int k = i;
            for (; k && numbers[k - 1] > number; k--) numbers[k] = numbers[k - 1];
            numbers[k] = number;
        }
    }
    for (int i = 0; i < count; i++)
        if (!i || numbers[i] != numbers[n - 1]) numbers[n++] = numbers[i];
    return n;
}

/* Encode the screen: the observation in ``found``, the blobs in ``seen[now]``. Return the number of active inputs. */
static int observe(memory *m, int first)
{
    static run runs[MOST_RUNS + WIDTH];
    static uint8_t touched[MOST_CLASSES * TILES];
    blobs *now = m->seen + m->now;
    layout at = layout_of(m->colours);
    int64_t *out = m->found;
    int count = 0, above = 0, many = 0, tiles;
    for (int row = 0; row < m->height; row++) {
        int start = many ? 0 : count, end = start + runs_of_row(m, row, runs + start);
        for (int i = start; i < end; i++) {
            for (int across = runs[i].first / TILE; across <= runs[i].last / TILE; across++) {
                int tile = runs[i].colour * TILES + row / TILE * TILES_ACROSS + across;
                if (!touched[tile]) touched[tile] = 1, *out++ = tile;
            }
            runs[i].parent = i;
        }
        many |= end > MOST_RUNS;
        if (!many) join_row(runs, above, start, end);
        above = start;
        count = end;
    }
    tiles = out - m->found;
    for (int i = 0; i < tiles; i++) touched[m->found[i]] = 0;
    now->count = 0;
    if (!many) find(now, runs, count);
    if (!first) track(now, m->seen + 1 - m->now, m->height);
    out = inputs(now, m->colours, &at, out);
    return sorted_set(m->found, out - m->found);
}

int encoder_start(memory *m)
{
    m->now = 0;
    return observe(m, 1);
}

int encoder_step(memory *m)
{
    m->now = 1 - m->now;
    return observe(m, 0);
}
