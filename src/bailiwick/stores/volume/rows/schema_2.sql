-- Chunks may be kept compressed. Size and hash are of the plain bytes, whatever is kept.

ALTER TABLE chunk ADD COLUMN packed INTEGER;   -- so many bytes are kept, compressed with zstd; NULL: as they are
CREATE INDEX chunk_blob ON chunk (volume, blob) WHERE blob IS NOT NULL;  -- is a blob in use (gc)
