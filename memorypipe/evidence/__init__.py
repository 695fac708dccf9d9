"""What a text rests on: claims, support, likeness, and text that is no statement at all."""
