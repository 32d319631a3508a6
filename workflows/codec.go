package workflows

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"waypost"
)

const (
	encodingMetadata  = "encoding"
	encodingEncrypted = "binary/encrypted"
	// payloadPurpose binds ciphertexts to their use: a database value does not
	// open as a payload.
	payloadPurpose = "temporal/payload"
	// Smaller payloads gain nothing from compression.
	compressFrom = 256
	// maxPayload bounds what a compressed payload may grow to; Temporal takes 2 MiB.
	maxPayload = 16 << 20

	formPlain   = 0
	formGzipped = 1
)

// NewCodec returns the codec that every payload passes on its way to Temporal:
// compressed where that helps, then encrypted. With it in the Web UI's codec
// endpoint the payloads are readable there.
func NewCodec(keys *waypost.Keyring) converter.PayloadCodec { return codec{keys} }

// NewDataConverter returns Temporal's default converter behind NewCodec.
func NewDataConverter(keys *waypost.Keyring) converter.DataConverter {
	return dataConverter{converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), NewCodec(keys))}
}

// dataConverter fails the workflow task, not the workflow, on a payload that it
// cannot read: a worker may lack a key that others have, as while keys are
// changed. The SDK would end the workflow with the error.
type dataConverter struct{ converter.DataConverter }

// WithContext makes it a workflow.ContextAware; outside workflows nothing changes.
func (c dataConverter) WithContext(context.Context) converter.DataConverter { return c }

// WithWorkflowContext returns the converter for workflow code.
func (c dataConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return strictConverter(c)
}

// strictConverter panics where it cannot read.
type strictConverter struct{ converter.DataConverter }

// FromPayload decodes one value.
func (c strictConverter) FromPayload(p *commonpb.Payload, value any) error {
	if err := c.DataConverter.FromPayload(p, value); err != nil {
		panic(fmt.Sprintf("read payload: %v", err))
	}
	return nil
}

// FromPayloads decodes several values.
func (c strictConverter) FromPayloads(p *commonpb.Payloads, values ...any) error {
	if err := c.DataConverter.FromPayloads(p, values...); err != nil {
		panic(fmt.Sprintf("read payloads: %v", err))
	}
	return nil
}

type codec struct{ keys *waypost.Keyring }

// Encode encrypts payloads.
func (c codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encode payload: %w", err)
		}
		form, err := pack(plain)
		if err != nil {
			return nil, fmt.Errorf("compress payload: %w", err)
		}
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodingMetadata: []byte(encodingEncrypted)},
			Data:     c.keys.Seal(form, payloadPurpose),
		}
	}
	return out, nil
}

// Decode decrypts the payloads that Encode made and leaves others as they are.
func (c codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[encodingMetadata]) != encodingEncrypted {
			out[i] = p
			continue
		}
		form, err := c.keys.Open(p.GetData(), payloadPurpose)
		if err != nil {
			return nil, fmt.Errorf("decode payload: %w", err)
		}
		plain, err := unpack(form)
		if err != nil {
			return nil, fmt.Errorf("decompress payload: %w", err)
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, fmt.Errorf("decode payload: %w", err)
		}
	}
	return out, nil
}

// packers are used again: a new one costs more than a payload of a few kilobytes.
// The fastest level makes them hardly larger and takes a third of the time.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	return w
}}

func pack(plain []byte) ([]byte, error) {
	if len(plain) >= compressFrom {
		b := bytes.NewBuffer(make([]byte, 0, len(plain)))
		b.WriteByte(formGzipped)
		w := packers.Get().(*gzip.Writer)
		defer packers.Put(w)
		w.Reset(b)
		if _, err := w.Write(plain); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		if b.Len() < len(plain) {
			return b.Bytes(), nil
		}
	}
	return append([]byte{formPlain}, plain...), nil
}

var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

func unpack(form []byte) ([]byte, error) {
	if len(form) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if form[0] == formPlain {
		return form[1:], nil
	}
	r := unpackers.Get().(*gzip.Reader)
	defer unpackers.Put(r)
	if err := r.Reset(bytes.NewReader(form[1:])); err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxPayload+1))
	if err == nil && len(plain) > maxPayload {
		err = fmt.Errorf("larger than %d bytes", maxPayload)
	}
	return plain, err
}
