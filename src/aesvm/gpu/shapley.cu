// Shapley values of sums of RBF kernels: aesvm/inspection/products.py says what is computed.
//
// A thread has one row and one vector, and goes through background rows. Factors of players lie one
// after another over vectors, so that threads of a warp read and write side by side. Quotients of
// four nodes share a division.

#define LEAST 1e-30  // factors below this are replaced by it

// The factor of every player: (n_rows, n_players, n_vectors).
extern "C" __global__ void fill_factors(
    const double *__restrict__ rows,  // (n_rows, n_columns): the first player's columns, ...
    const double *__restrict__ vectors,  // (n_columns, n_vectors)
    const long long n_columns,
    const long long n_vectors,
    const long long *__restrict__ ends,  // where the columns of each player end
    const long long n_players,
    const double gamma,
    double *__restrict__ factors)
{
    const long long z = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (z >= n_vectors) return;
    const double *row = rows + blockIdx.y * n_columns;
    double *out = factors + blockIdx.y * n_players * n_vectors + z;
    long long column = 0;
    for (long long player = 0; player < n_players; ++player) {
        double distance = 0.0;
        for (; column < ends[player]; ++column) {
            const double apart = row[column] - vectors[column * n_vectors + z];
            distance += apart * apart;
        }
        out[player * n_vectors] = fmax(exp(-gamma * distance), LEAST);
    }
}

// Add values over background rows to sums, (n_rows, n_players, n_vectors).
extern "C" __global__ void add_values(
    const double *__restrict__ own,  // factors of the rows
    const double *__restrict__ others,  // factors of the background rows
    const long long n_others,
    const long long n_players,
    const long long n_vectors,
    const long long *__restrict__ sizes,  // of the rules
    const double *__restrict__ reaches,
    const double *__restrict__ nodes,  // (rules, width)
    const double *__restrict__ weights,
    const long long width,
    double *__restrict__ sums)
{
    const long long z = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (z >= n_vectors) return;
    const double *p = own + blockIdx.y * n_players * n_vectors + z;
    double *into = sums + blockIdx.y * n_players * n_vectors + z;
    for (long long b = 0; b < n_others; ++b) {
        const double *q = others + b * n_players * n_vectors + z;
        double spread = 0.0;
        long long n_active = 0;
        for (long long l = 0; l < n_players; ++l) {
            const double here = p[l * n_vectors], there = q[l * n_vectors];
            spread += fabs(here - there) / (here + there);
            n_active += here != there;
        }
        long long rule = 0;
        while (2 * sizes[rule] < n_active && reaches[rule] < spread) ++rule;
        for (long long k = 0; k < sizes[rule]; k += 4) {
            const double *t = nodes + rule * width + k, *w = weights + rule * width + k;
            const double t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3];
            double a = w[0], b0 = w[1], c = w[2], d = w[3];
            for (long long l = 0; l < n_players; ++l) {
                const double there = q[l * n_vectors], apart = p[l * n_vectors] - there;
                a *= there + t0 * apart;
                b0 *= there + t1 * apart;
                c *= there + t2 * apart;
                d *= there + t3 * apart;
            }
            for (long long l = 0; l < n_players; ++l) {
                const double there = q[l * n_vectors], apart = p[l * n_vectors] - there;
                const double f0 = there + t0 * apart, f1 = there + t1 * apart;
                const double f2 = there + t2 * apart, f3 = there + t3 * apart;
                const double f01 = f0 * f1, f23 = f2 * f3;
                const double upper = (a * f1 + b0 * f0) * f23 + (c * f3 + d * f2) * f01;
                into[l * n_vectors] += apart * (upper / (f01 * f23));
            }
        }
    }
}
