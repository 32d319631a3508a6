package workflows

import (
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"
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
	// maxPayload bounds what a compressed payload may grow to; Temporal takes 2 MiB.
	maxPayload = 16 << 20
	// packWindow is far enough back for the repetitions of a payload, and keeps the memory
	// of a compression at some hundred kilobytes.
	packWindow = 128 << 10
)

// Payloads are compressed at the fastest level: others make them hardly smaller.
var (
	packer, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(packWindow), zstd.WithEncoderCRC(false))
	unpacker, _ = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPayload))
)

// NewCodec returns the codec that every payload passes on its way to Temporal:
// compressed, then encrypted. With it in the Web UI's codec endpoint the payloads are
// readable there.
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
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodingMetadata: []byte(encodingEncrypted)},
			Data:     c.keys.Seal(packer.EncodeAll(plain, nil), payloadPurpose),
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
		packed, err := c.keys.Open(p.GetData(), payloadPurpose)
		if err != nil {
			return nil, fmt.Errorf("decode payload: %w", err)
		}
		plain, err := unpacker.DecodeAll(packed, nil)
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
