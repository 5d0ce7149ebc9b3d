// SPDX-License-Identifier: Apache-2.0
// Rectangles written straight into pixels: hundreds of thousands take some milliseconds, where a canvas takes seconds.

export class Raster {
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  width = 0; // device pixels
  height = 0;

  begin(width: number, height: number): void {
    this.width = Math.max(1, Math.round(width));
    this.height = Math.max(1, Math.round(height));
    if (this.image?.width !== this.width || this.image.height !== this.height) {
      this.image = new ImageData(this.width, this.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else {
      this.pixels.fill(0);
    }
  }

  // Moves the picture to the left by so many pixels, or to the right. What comes in is to be drawn: the columns from
  // the first number to the second.
  shift(by: number): [number, number] {
    this.pixels.copyWithin(Math.max(0, -by), Math.max(0, by), this.pixels.length - Math.max(0, -by));
    const [from, to] = by > 0 ? [this.width - by, this.width] : [0, -by];
    this.fill(from, 0, to, this.height, 0);
    return [from, to];
  }

  // From (x, y) to (right, bottom), which are not part of it; within the picture.
  fill(x: number, y: number, right: number, bottom: number, colour: number): void {
    const pixels = this.pixels;
    const width = right - x;
    for (let row = y * this.width + x; row < bottom * this.width; row += this.width) {
      if (width > 24) {
        pixels.fill(colour, row, row + width);
      } else { // a call costs more than a few stores
        for (let at = row; at < row + width; at++) {
          pixels[at] = colour;
        }
      }
    }
  }

  column(x: number, y: number, bottom: number, colour: number): void {
    for (let at = y * this.width + x; at < bottom * this.width; at += this.width) {
      this.pixels[at] = colour;
    }
  }

  // At (x, y) of the canvas, in device pixels.
  end(context: CanvasRenderingContext2D, x: number, y: number): void {
    if (this.image) {
      context.putImageData(this.image, Math.round(x), Math.round(y));
    }
  }
}

// "#0072b2" as a pixel.
export function pixelOf(colour: string): number {
  const value = Number.parseInt(colour.slice(1), 16);
  const red = value >> 16;
  const green = (value >> 8) & 255;
  const blue = value & 255;
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
