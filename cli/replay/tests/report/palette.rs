//! Pictures with at most 256 colours, which take half the room. A report has few colours; only the
//! edges of letters have more, and get the nearest colour.

use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Filter};
use std::collections::HashMap;
use std::io::Cursor;

type Color = [u8; 3];

/// The same picture as a PNG with a palette of its most frequent colours.
pub fn reduced(png: &[u8]) -> Vec<u8> {
    let mut reader = Decoder::new(Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(frame.bit_depth, BitDepth::Eight);
    let pixels: Vec<Color> = bytes[..frame.buffer_size()]
        .chunks(frame.color_type.samples())
        .map(|pixel| [pixel[0], pixel[1], pixel[2]])
        .collect();
    let palette = palette(&pixels);
    let mut nearest = HashMap::new();
    let indices: Vec<u8> = pixels
        .iter()
        .map(|pixel| *nearest.entry(*pixel).or_insert_with(|| index(&palette, *pixel)))
        .collect();
    let mut small = Vec::new();
    let mut encoder = Encoder::new(&mut small, frame.width, frame.height);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(palette.concat());
    encoder.set_compression(Compression::High);
    encoder.set_filter(Filter::NoFilter);
    encoder.write_header().unwrap().write_image_data(&indices).unwrap();
    small
}

/// The most frequent colours; of equally frequent ones, the darker.
fn palette(pixels: &[Color]) -> Vec<Color> {
    let mut counts: HashMap<Color, usize> = HashMap::new();
    for pixel in pixels {
        *counts.entry(*pixel).or_default() += 1;
    }
    let mut colors: Vec<_> = counts.into_iter().collect();
    colors.sort_unstable_by_key(|(color, count)| (std::cmp::Reverse(*count), *color));
    colors.into_iter().map(|(color, _)| color).take(256).collect()
}

/// The place of the nearest colour.
fn index(palette: &[Color], color: Color) -> u8 {
    let distance = |other: &Color| -> u32 {
        other.iter().zip(color).map(|(one, part)| u32::from(one.abs_diff(part)).pow(2)).sum()
    };
    let nearest = palette.iter().enumerate().min_by_key(|(_, other)| distance(other));
    u8::try_from(nearest.unwrap().0).unwrap()
}
