"""Names that members of built-in values have; the first two lists are what Node says (tests compare them with it)."""

from adderclaw.gate.programs.allowlist import names

FUNCTIONS = names(
    """
    __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ add anchor apply at big bind blink bold call
    catch charAt charCodeAt clear codePointAt compile concat constructor copyWithin delete deref difference drop
    endsWith entries every exec fill filter finally find findIndex findLast findLastIndex fixed flat flatMap
    fontcolor fontsize forEach get getBigInt64 getBigUint64 getDate getDay getFloat32 getFloat64 getFullYear
    getHours getInt16 getInt32 getInt8 getMilliseconds getMinutes getMonth getSeconds getTime getTimezoneOffset
    getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes getUTCMonth getUTCSeconds
    getUint16 getUint32 getUint8 getYear has hasOwnProperty includes indexOf intersection isDisjointFrom
    isPrototypeOf isSubsetOf isSupersetOf isWellFormed italics join keys lastIndexOf link localeCompare map match
    matchAll next normalize padEnd padStart pop propertyIsEnumerable prototype push reduce reduceRight repeat
    replace replaceAll resize return reverse search set setBigInt64 setBigUint64 setDate setFloat32 setFloat64
    setFullYear setHours setInt16 setInt32 setInt8 setMilliseconds setMinutes setMonth setSeconds setTime setUTCDate
    setUTCFullYear setUTCHours setUTCMilliseconds setUTCMinutes setUTCMonth setUTCSeconds setUint16 setUint32
    setUint8 setYear shift slice small some sort splice split startsWith strike sub subarray substr substring sup
    symmetricDifference take test then throw toArray toDateString toExponential toFixed toGMTString toISOString
    toJSON toLocaleDateString toLocaleLowerCase toLocaleString toLocaleTimeString toLocaleUpperCase toLowerCase
    toPrecision toReversed toSorted toSpliced toString toTimeString toUTCString toUpperCase toWellFormed transfer
    transferToFixedLength trim trimEnd trimLeft trimRight trimStart union unshift valueOf values with
    asciiSlice asciiWrite base64Slice base64Write base64urlSlice base64urlWrite compare copy equals hexSlice
    hexWrite inspect latin1Slice latin1Write readBigInt64BE readBigInt64LE readBigUInt64BE readBigUInt64LE
    readBigUint64BE readBigUint64LE readDoubleBE readDoubleLE readFloatBE readFloatLE readInt16BE readInt16LE
    readInt32BE readInt32LE readInt8 readIntBE readIntLE readUInt16BE readUInt16LE readUInt32BE readUInt32LE
    readUInt8 readUIntBE readUIntLE readUint16BE readUint16LE readUint32BE readUint32LE readUint8 readUintBE
    readUintLE swap16 swap32 swap64 ucs2Slice ucs2Write utf8Slice utf8Write write writeBigInt64BE
    writeBigInt64LE writeBigUInt64BE writeBigUInt64LE writeBigUint64BE writeBigUint64LE writeDoubleBE
    writeDoubleLE writeFloatBE writeFloatLE writeInt16BE writeInt16LE writeInt32BE writeInt32LE writeInt8
    writeIntBE writeIntLE writeUInt16BE writeUInt16LE writeUInt32BE writeUInt32LE writeUInt8 writeUIntBE
    writeUIntLE writeUint16BE writeUint16LE writeUint32BE writeUint32LE writeUint8 writeUintBE writeUintLE
    parent offset
    getOrInsert getOrInsertComputed toZonedDateTime setFromBase64 setFromHex toBase64 toHex toTemporalInstant
    getFloat16 setFloat16 groupToMap callee
    """
)
"""Names of functions that some value has by its type."""
GETTERS = names(
    """
    __proto__ arguments buffer byteLength byteOffset caller constructor description detached dotAll flags global
    hasIndices ignoreCase length maxByteLength multiline resizable size source sticky unicode unicodeSets
    """
)
HARD = names(
    """
    __proto__ constructor prototype call apply bind caller callee arguments __defineGetter__ __defineSetter__
    __lookupGetter__ __lookupSetter__ valueOf toJSON then next return throw isPrototypeOf propertyIsEnumerable compile
    """
) - names("next return throw then toJSON valueOf")
"""Names by which everything is reached."""
MODULES = names(
    """
    assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel
    dns dns/promises domain events fs fs/promises http http2 https inspector inspector/promises module net os path
    path/posix path/win32 perf_hooks process punycode querystring readline readline/promises repl stream
    stream/consumers stream/promises stream/web string_decoder sys timers timers/promises tls trace_events tty url
    util util/types v8 vm wasi worker_threads zlib
    sea sqlite test test/reporters
    """
)
"""Node's own modules."""
GLOBALS = names(
    """
    Array ArrayBuffer BigInt Boolean Buffer DataView Date Error Function Infinity Intl Iterator JSON Map Math NaN
    Number Object Promise Proxy RangeError Reflect RegExp Set String Symbol SyntaxError TypeError URIError URL
    URLSearchParams WeakMap WeakRef WeakSet WebAssembly WebSocket Worker assert atob btoa child_process clearImmediate
    clearInterval clearTimeout console crypto decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval
    exports fetch fs global globalThis isFinite isNaN module navigator os parseFloat parseInt path performance process
    queueMicrotask require setImmediate setInterval setTimeout structuredClone undefined unescape url util vm
    """
)
