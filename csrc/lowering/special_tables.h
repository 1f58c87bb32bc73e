// SPDX-License-Identifier: Apache-2.0
// Written by tools/special_tables.py: Chebyshev series, good to float32.
#pragma once

#include <span>

namespace neuronx::lowering {

// sum c[i] T_i(t), where t goes from -1 to 1 as the variable from low to
// high.
struct Series {
  double low, high;
  std::span<const double> c;
};

// exp(-x) I0(x) of x in [0, 8].
inline constexpr double kI0SmallTerms[] = {
    3.38397637205e-1, -3.04682672343e-1, 1.71620901522e-1, -9.4901097048e-2,
    4.93052842397e-2, -2.37374148059e-2, 1.05464603946e-2, -4.32430999505e-3,
    1.63947561694e-3, -5.76375574539e-4, 1.88502885096e-4, -5.75419501008e-5,
    1.64484480707e-5, -4.41673835846e-6, 1.11738753912e-6, -2.67079385394e-7,
    6.04699502254e-8, -1.30002500999e-8, 2.65982372468e-9,
};
inline constexpr Series kI0Small{0, 8, kI0SmallTerms};

// sqrt(x) exp(-x) I0(x) of 8 / x in [0, 1].
inline constexpr double kI0LargeTerms[] = {
    4.02245205507e-1,
    3.36911647826e-3,
    6.88975834692e-5,
    2.89137052083e-6,
    2.04891858947e-7,
    2.2666689905e-8,
    3.39623202571e-9,
};
inline constexpr Series kI0Large{0, 1, kI0LargeTerms};

// exp(-x) I1(x) / x of x in [0, 8].
inline constexpr double kI1SmallTerms[] = {
    1.26293593222e-1,
    -1.76416518358e-1,
    1.0264365869e-1,
    -5.29459812081e-2,
    2.47264490306e-2,
    -1.05640848946e-2,
    4.15642294431e-3,
    -1.51357245063e-3,
    5.12285956169e-4,
    -1.61760815826e-4,
    4.78156510755e-5,
    -1.3273163656e-5,
    3.47025130814e-6,
    -8.5687202647e-7,
    2.00329475355e-7,
    -4.4450591288e-8,
    9.3815373865e-9,
    -1.88724975172e-9,
};
inline constexpr Series kI1Small{0, 8, kI1SmallTerms};

// sqrt(x) exp(-x) I1(x) of 8 / x in [0, 1].
inline constexpr double kI1LargeTerms[] = {
    3.89288117509e-1,
    -9.76109749136e-3,
    -1.10588938763e-4,
    -3.88256480888e-6,
    -2.51223623787e-7,
    -2.63146884689e-8,
    -3.83538038596e-9,
};
inline constexpr Series kI1Large{0, 1, kI1LargeTerms};

// K0(x) + log(x / 2) I0(x) of x^2 in [0, 4].
inline constexpr double kK0SmallTerms[] = {
    -2.67663696617e-1,
    3.44289899925e-1,
    3.59799365154e-2,
    1.26461541145e-3,
    2.28621210312e-5,
    2.53479107903e-7,
    1.90451637722e-9,
};
inline constexpr Series kK0Small{0, 4, kK0SmallTerms};

// sqrt(x) exp(x) K0(x) of 2 / x in [0, 1].
inline constexpr double kK0LargeTerms[] = {
    1.22015154103,
    -3.1448101312e-2,
    1.56988388573e-3,
    -1.28495495816e-4,
    1.39498137189e-5,
    -1.83175552272e-6,
    2.76681363945e-7,
    -4.66048989769e-8,
    8.57403401741e-9,
};
inline constexpr Series kK0Large{0, 1, kK0LargeTerms};

// x (K1(x) - log(x / 2) I1(x)) of x^2 in [0, 4].
inline constexpr double kK1SmallTerms[] = {
    7.62650113669e-1,
    -3.53155960777e-1,
    -1.22611180823e-1,
    -6.97572385964e-3,
    -1.73028895751e-4,
    -2.43340614157e-6,
    -2.21338763073e-8,
};
inline constexpr Series kK1Small{0, 4, kK1SmallTerms};

// sqrt(x) exp(x) K1(x) of 2 / x in [0, 1].
inline constexpr double kK1LargeTerms[] = {
    1.36031309524,
    1.03923736577e-1,
    -2.85781685962e-3,
    1.95215518471e-4,
    -1.93619797417e-5,
    2.40648494784e-6,
    -3.50196060309e-7,
    5.74108412545e-8,
    -1.03457624657e-8,
};
inline constexpr Series kK1Large{0, 1, kK1LargeTerms};

// J0(x) of x^2 in [0, 25].
inline constexpr double kJ0SmallTerms[] = {
    2.34098982532e-3,
    -4.9420509341e-1,
    3.97937367232e-1,
    -9.38314587966e-2,
    1.08875316487e-2,
    -7.60626765773e-4,
    3.56948364636e-5,
    -1.20606970614e-6,
    3.07903857203e-8,
};
inline constexpr Series kJ0Small{0, 25, kJ0SmallTerms};

// J1(x) / x of x^2 in [0, 25].
inline constexpr double kJ1SmallTerms[] = {
    1.24721768265e-1,
    -2.6868456848e-1,
    9.1297906639e-2,
    -1.40046534514e-2,
    1.21970619431e-3,
    -6.86129410793e-5,
    2.7033690715e-6,
    -7.88550692781e-8,
    1.77292975659e-9,
};
inline constexpr Series kJ1Small{0, 25, kJ1SmallTerms};

// Y0(x) - 2/pi log(x) J0(x) of x^2 in [0, 25].
inline constexpr double kY0SmallTerms[] = {
    2.06052576341e-1,
    -1.30175223811e-1,
    -2.91894720865e-1,
    1.02682879661e-1,
    -1.42791599018e-2,
    1.11646298642e-3,
    -5.67752511338e-5,
    2.04067036576e-6,
    -5.47643102976e-8,
    1.14122065209e-9,
};
inline constexpr Series kY0Small{0, 25, kY0SmallTerms};

// (Y1(x) - 2/pi (log(x) J1(x) - 1 / x)) / x of x^2 in [0, 25].
inline constexpr double kY1SmallTerms[] = {
    5.3107445056e-2,
    1.41894508947e-1,
    -8.83432886829e-2,
    1.71111099342e-2,
    -1.70578525651e-3,
    1.05257530278e-4,
    -4.44507526565e-6,
    1.369927767e-7,
    -3.22288376802e-9,
};
inline constexpr Series kY1Small{0, 25, kY1SmallTerms};

// P of Hankel's form of J0, Y0; of 25 / x^2 in [0, 1].
inline constexpr double kP0Terms[] = {
    9.98652339878e-1,
    -1.32937162125e-3,
    1.76130555129e-5,
    -6.31936711873e-7,
    3.94882558709e-8,
};
inline constexpr Series kP0{0, 1, kP0Terms};

// Q of Hankel's form of J0, Y0; of 25 / x^2 in [0, 1].
inline constexpr double kQ0Terms[] = {
    -1.23647025822e-1,
    1.31901940499e-3,
    -3.21879912127e-5,
    1.62370932056e-6,
    -1.2743289742e-7,
    1.35130327631e-8,
    -1.78507590512e-9,
};
inline constexpr Series kQ0{0, 1, kQ0Terms};

// P of Hankel's form of J1, Y1; of 25 / x^2 in [0, 1].
inline constexpr double kP1Terms[] = {
    1.00226762069,
    2.24373529581e-3,
    -2.30710188625e-5,
    7.63918173253e-7,
    -4.58968523234e-8,
    4.02051547842e-9,
};
inline constexpr Series kP1{0, 1, kP1Terms};

// Q of Hankel's form of J1, Y1; of 25 / x^2 in [0, 1].
inline constexpr double kQ1Terms[] = {
    3.73087346215e-1,
    -1.87051896811e-3,
    4.00569945205e-5,
    -1.91440283909e-6,
    1.45881651074e-7,
    -1.51833986447e-8,
    1.97992226059e-9,
};
inline constexpr Series kQ1{0, 1, kQ1Terms};

// Ai(x) of x in [-2.1, 2.1].
inline constexpr double kAiryMiddleTerms[] = {
    2.48591559694e-1,
    -1.7261376864e-1,
    -1.33756001044e-1,
    1.13630135087e-1,
    -2.25811629403e-2,
    -7.14283384544e-3,
    4.61123047333e-3,
    -7.14124916882e-4,
    -1.37768736867e-4,
    7.60810001052e-5,
    -9.96930414749e-6,
    -1.36963879343e-6,
    6.78099513453e-7,
    -7.82329262949e-8,
    -8.30466587562e-9,
    3.78031813707e-9,
};
inline constexpr Series kAiryMiddle{-2.1, 2.1, kAiryMiddleTerms};

// x^1/4 exp(zeta) Ai(x) of 1 / zeta in [0, 0.5], zeta = 2/3 x^3/2.
inline constexpr double kAiryPositiveTerms[] = {
    2.77914727099e-1,
    -3.97460446678e-3,
    1.88442332303e-4,
    -1.51391455539e-5,
    1.62770799389e-6,
    -2.12461325583e-7,
    3.19609103182e-8,
    -5.36754977372e-9,
};
inline constexpr Series kAiryPositive{0, 0.5, kAiryPositiveTerms};

// P of Ai(-t) = t^-1/4 / sqrt(pi) (P sin c - Q / zeta cos c), c = zeta + pi /
// 4; of 1 / zeta^2 in [0, 0.25].
inline constexpr double kAiryPTerms[] = {
    9.96150837622e-1,
    -3.64077166077e-3,
    1.83640192673e-4,
    -2.04030013236e-5,
    3.37687324771e-6,
    -7.15162318892e-7,
    1.79563163205e-7,
    -5.11380952004e-8,
    1.60604855412e-8,
    -5.45681544505e-9,
};
inline constexpr Series kAiryP{0, 0.25, kAiryPTerms};

// Q of the same.
inline constexpr double kAiryQTerms[] = {
    6.60254197367e-2,
    -3.09877681927e-3,
    2.69459989089e-4,
    -3.99949398112e-5,
    8.02027398948e-6,
    -1.95762442498e-6,
    5.49802340355e-7,
    -1.71723224595e-7,
    5.83293265467e-8,
    -2.12139858329e-8,
    8.16802824115e-9,
    -3.30115640461e-9,
    1.39122334562e-9,
    -6.08179258817e-10,
    2.7461766709e-10,
};
inline constexpr Series kAiryQ{0, 0.25, kAiryQTerms};

// (1 + 2x) exp(x^2) erfc(x) of (x - 3.75) / (x + 3.75) in [-1, 1].
inline constexpr double kErfcxTerms[] = {
    1.17757893457,
    -4.59005458065e-3,
    -8.42491333665e-2,
    5.92099399982e-2,
    -2.66586684353e-2,
    9.07499767071e-3,
    -2.41316354042e-3,
    4.90775836526e-4,
    -6.9169733025e-5,
    4.13902798607e-6,
    7.7403830662e-7,
    -2.18864010492e-7,
    1.07649994657e-8,
    4.52195981122e-9,
};
inline constexpr Series kErfcx{-1, 1, kErfcxTerms};

// quantile(1/2 + u) / u of u^2 in [0, 0.1369], of the normal distribution.
inline constexpr double kQuantileMiddleTerms[] = {
    2.74704884395,
    2.65093871975e-1,
    2.7868287159e-2,
    3.65711361499e-3,
    5.33420434018e-4,
    8.27614904298e-5,
    1.33709607167e-5,
    2.2227586094e-6,
    3.77422509641e-7,
    6.51429396313e-8,
    1.13907813936e-8,
};
inline constexpr Series kQuantileMiddle{0, 0.1369, kQuantileMiddleTerms};

// s (s - log(s) / s + quantile(p)) of 1 / s in [0.068, 0.5], s = sqrt(-2 log
// p).
inline constexpr double kQuantileTailTerms[] = {
    1.02122113609,
    8.3809678209e-2,
    -9.53856708618e-4,
    -4.0103186379e-4,
    1.88703512801e-4,
    -6.78540421433e-5,
    2.20613787698e-5,
    -6.93500241846e-6,
    2.19895144377e-6,
    -7.18830762472e-7,
    2.43515956399e-7,
    -8.51433480651e-8,
    3.05300365797e-8,
    -1.11687422251e-8,
    4.15435879912e-9,
};
inline constexpr Series kQuantileTail{0.068, 0.5, kQuantileTailTerms};

// Taylor coefficients of c_k(eta) in DLMF 8.12.8, k the row.
inline constexpr double kTemme[4][8] = {
    {
        -3.33333333333e-1,
        8.33333333333e-2,
        -1.48148148148e-2,
        1.15740740741e-3,
        3.52733686067e-4,
        -1.78755144033e-4,
        3.91926317852e-5,
        -2.18544851068e-6,
    },
    {
        -1.85185185185e-3,
        -3.47222222222e-3,
        2.6455026455e-3,
        -9.90226337449e-4,
        2.05761316872e-4,
        -4.01877572016e-7,
        -1.80985503345e-5,
        7.64916091608e-6,
    },
    {
        4.1335978836e-3,
        -2.68132716049e-3,
        7.71604938272e-4,
        2.00938786008e-6,
        -1.07366532264e-4,
        5.29234488291e-5,
        -1.27606351886e-5,
        3.4235787341e-8,
    },
    {
        6.49434156379e-4,
        2.29472093621e-4,
        -4.69189494395e-4,
        2.67720632063e-4,
        -7.56180167188e-5,
        -2.39650511387e-7,
        1.10826541153e-5,
        -5.67495282699e-6,
    },
};

}  // namespace neuronx::lowering
