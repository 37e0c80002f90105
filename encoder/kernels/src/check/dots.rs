use half::f16;

use super::{LENGTH_MAX, Noise, levels};
use crate::{Bars, Kernels, Level, QUESTIONS_MAX, RowFacts};

/// Returns the exact sum, and a bound on the error of an f32 sum in any order.
fn exact(query: &[f32], row: &[f16]) -> (f64, f64) {
    let products = query.iter().zip(row).map(|(&q, &r)| f64::from(q) * f64::from(r.to_f32()));
    let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
    // The bound's second term: a product below the smallest normal float may lose all its digits.
    let lost = f64::from(f32::MIN_POSITIVE);
    (sum, query.len() as f64 * (f64::from(f32::EPSILON) * size + lost))
}

#[test]
fn dot_matches_an_f64_sum_at_every_length_and_alignment() {
    let mut noise = Noise(0x5EED_0001);
    for kernels in levels() {
        for length in 0..=LENGTH_MAX {
            for offset in 0..8 {
                let query = noise.floats(length + offset);
                let row = noise.halves(length + 7 - offset);
                let (query, row) = (&query[offset..], &row[7 - offset..]);
                let (want, bound) = exact(query, row);
                let got = f64::from(kernels.dot(query, row));
                assert!(
                    (got - want).abs() <= bound,
                    "{:?} length {length} offset {offset}: {got} is not {want} +- {bound}",
                    kernels.level()
                );
            }
        }
    }
}

#[test]
fn dot_rows_gives_each_row_the_bits_of_dot() {
    let mut noise = Noise(0x5EED_0002);
    for kernels in levels() {
        for width in (0..=LENGTH_MAX).chain([384, 1024]) {
            for count in [0, 1, 2, 3, 7, 8] {
                let query = noise.floats(width);
                let rows = noise.halves(width * count);
                let mut out = vec![f32::NAN; count];
                kernels.dot_rows(&query, &rows, &mut out);
                for (r, score) in out.iter().enumerate() {
                    let alone = kernels.dot(&query, &rows[r * width..][..width]);
                    assert_eq!(score.to_bits(), alone.to_bits(), "width {width} row {r}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "differ in width")]
fn dot_refuses_unequal_lengths() {
    Kernels::detect().dot(&[1.0], &[]);
}

#[test]
#[should_panic(expected = "query width times")]
fn dot_rows_refuses_a_ragged_block() {
    Kernels::detect().dot_rows(&[1.0, 2.0], &[f16::ONE; 3], &mut [0.0]);
}

/// Returns the exact sum, and its low 32 bits, which are the result of a level.
fn exact_codes(query: &[i16], row: &[i8]) -> (i64, i32) {
    let sum = query.iter().zip(row).map(|(&q, &code)| i64::from(q) * i64::from(code)).sum::<i64>();
    let [a, b, c, d, ..] = sum.to_le_bytes();
    (sum, i32::from_le_bytes([a, b, c, d]))
}

#[test]
fn dot_codes_is_exact_at_every_length_alignment_and_number_of_questions() {
    let mut noise = Noise(0x5EED_000A);
    let counts = [0, 1, 2, 3, 4, 5, 7, 31, 32, 33, 66].into_iter().cycle();
    for kernels in levels() {
        for width in (0..=LENGTH_MAX).chain([384, 1024, 4096]) {
            for ((offset, count), questions) in
                (0..32).zip(counts.clone()).zip((1..=QUESTIONS_MAX).cycle())
            {
                let queries: Vec<Vec<i16>> = (0..questions).map(|_| noise.shorts(width)).collect();
                let queries: Vec<&[i16]> = queries.iter().map(Vec::as_slice).collect();
                let asked = kernels.code_queries(&queries);
                // The row data may continue behind the requested rows.
                let more = if width.is_multiple_of(2) { 0 } else { 3 * width + 1 };
                let rows = noise.codes(width * count + offset + more);
                let rows = &rows[offset..];
                let mut out = vec![i32::MIN; count * questions];
                kernels.dot_codes(&asked, rows, &mut out);
                for (at, &got) in out.iter().enumerate() {
                    let (r, q) = (at / questions, at % questions);
                    let (_, want) = exact_codes(queries[q], &rows[r * width..][..width]);
                    let level = kernels.level();
                    assert_eq!(got, want, "{level:?} {width} wide, row {r}, question {q}");
                }
            }
        }
    }
}

#[test]
fn dot_codes_does_not_wrap_for_the_widest_query_in_its_range() {
    let width = 4096;
    for kernels in levels() {
        for questions in [1, 3] {
            for (q, code) in [(4095, -128), (-4095, -128), (4095, 127), (-4095, 127)] {
                let (query, rows) = (vec![q; width], vec![code; 33 * width]);
                let asked = kernels.code_queries(&vec![&*query; questions]);
                let mut out = vec![0; 33 * questions];
                kernels.dot_codes(&asked, &rows, &mut out);
                let (want, _) = exact_codes(&query, &rows[..width]);
                assert!(out.iter().all(|&sum| i64::from(sum) == want), "{:?}", kernels.level());
            }
        }
    }
}

#[test]
#[should_panic(expected = "fewer rows than sums")]
fn dot_codes_refuses_a_ragged_block() {
    let kernels = Kernels::detect();
    kernels.dot_codes(&kernels.code_queries(&[&[1, 2]]), &[1; 3], &mut [0, 0]);
}

#[test]
#[should_panic(expected = "another level")]
fn dot_codes_refuses_questions_of_another_level() {
    let scalar = Kernels::for_level(Level::Scalar).unwrap();
    let Some(other) = levels().into_iter().find(|kernels| kernels.level() != Level::Scalar) else {
        panic!("there is no other level here: another level");
    };
    other.dot_codes(&scalar.code_queries(&[&[1, 2]]), &[1; 2], &mut [0]);
}

#[test]
#[should_panic(expected = "differ in width")]
fn questions_of_two_widths_are_refused() {
    Kernels::detect().code_queries(&[&[1, 2], &[1]]);
}

#[test]
#[should_panic(expected = "QUESTIONS_MAX")]
fn more_questions_than_there_are_lanes_are_refused() {
    Kernels::detect().code_queries(&[&[1_i16][..]; QUESTIONS_MAX + 1]);
}

/// Returns numbers of all magnitudes, some of them not finite.
fn facts(noise: &mut Noise, count: usize) -> Vec<f32> {
    let mut facts = noise.floats(count);
    for (at, fact) in facts.iter_mut().enumerate() {
        match at % 19 {
            7 => *fact = f32::NAN,
            11 => *fact = f32::INFINITY,
            13 => *fact = f32::NEG_INFINITY,
            _ => {}
        }
    }
    facts
}

/// The scalar level is the reference; a comparison with the same rounding gives the same bits.
#[test]
fn reaching_gives_the_same_bits_at_every_level() {
    let mut noise = Noise(0x5EED_000B);
    let scalar = Kernels::for_level(Level::Scalar).unwrap();
    let (mut set, mut unset) = (0, 0);
    for rows in (0..70).chain([256]) {
        for questions in 1..=QUESTIONS_MAX {
            let mut sixteen = || facts(&mut noise, QUESTIONS_MAX).try_into().unwrap();
            let bars = Bars { per_product: sixteen(), per_error: sixteen(), least: sixteen() };
            let [scales, errors, norms] = [0; 3].map(|_| facts(&mut noise, rows));
            let facts = RowFacts { scales: &scales, errors: &errors, norms: &norms };
            let shorts = noise.shorts(rows * questions);
            let products: Vec<i32> = shorts.iter().map(|&short| i32::from(short) * 37).collect();
            let mut want = vec![0xAAAA; rows];
            scalar.reaching(&products, facts, &bars, &mut want);
            set += want.iter().map(|bits| bits.count_ones()).sum::<u32>();
            unset += want.iter().map(|bits| bits.count_zeros()).sum::<u32>();
            for kernels in levels() {
                let mut out = vec![0x5555; rows];
                kernels.reaching(&products, facts, &bars, &mut out);
                assert_eq!(out, want, "{:?} {rows} rows, {questions}", kernels.level());
            }
        }
    }
    assert!(set > 1000 && unset > 1000, "{set} reach their bars, {unset} do not");
}

#[test]
fn a_bar_is_reached_from_its_exact_value_on() {
    for kernels in levels() {
        for questions in [1, 2, QUESTIONS_MAX] {
            let mut bars = Bars { per_product: [0.5; 16], per_error: [2.0; 16], least: [3.0; 16] };
            let facts = RowFacts { scales: &[2.0], errors: &[0.5], norms: &[1.0] };
            let reaches = |bars: &Bars| {
                let mut out = [0];
                kernels.reaching(&vec![2; questions], facts, bars, &mut out);
                out[0]
            };
            let all = u16::MAX >> (QUESTIONS_MAX - questions);
            assert_eq!(reaches(&bars), all, "3 is not below 3");
            bars.least[questions - 1] = 3.0_f32.next_up();
            assert_eq!(reaches(&bars), all >> 1, "3 is below a little more");
        }
    }
}
